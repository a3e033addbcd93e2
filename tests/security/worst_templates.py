"""The templates that cost most of what the fuzzer of templates has found (`tests/property/fuzz/`), each over the values
of `SCOPE`. Before there were budgets the first of them took seconds to hours."""

from typing import Any

_ROWS = [{"a": n % 97, "b": f"name {n}", "c": {"d": [n, n + 1]}} for n in range(2000)]
SCOPE: dict[str, Any] = {"rows": _ROWS, "t": "abc", "n": 7}  # small enough for a workload
_S = "('aB' * 450000)"
_HALF = "('a' * 200000 ~ 'b' ~ 'a' * 200000)"
_L = "(range(90000) | list)"


def _often(expression: str) -> str:
    return "{% for i in range(15000) %}{% set x = " + expression + " %}{% endfor %}{{ 1 }}"


WORST = (
    "{{ ('{0!r:.0}' * 2000).format(" + _S + ") }}",
    "{{ [[1]] | map('#steps', -10**15) | list }}",
    "{% set s = " + _S + " %}" + _often("s is lower"),
    "{% set s = " + _S + " %}{% set h = " + _HALF + " %}{{ s.rfind(h) }}",
    "{% set s = " + _S + " %}{{ s.strip('b' * 100000 ~ s) }}",
    "{% set s = " + _S + " %}{{ s | trim('b' * 100000 ~ s) }}",
    "{% set s = " + _S + " %}{% set z = s ~ 'x' %}{{ ([z] * 90000).count(s ~ 'y') }}",
    "{% set s = " + _S + " %}{% set z = [s ~ 'x'] * 90000 %}" + _often("(s ~ 'y') in z"),
    "{% set g = namespace(v=gone) %}{% set s = " + _S + " %}" + _often("1").replace("set x = 1", "set g.v = g.v[s]"),
    "{% set s = " + _S + " %}{{ (s | list | length, s | sort | length) }}",
    "{{ ('a ' * 450000) | title }}",
    "{{ (('{0}' * 2000) | groupby(2 ** 4000)) }}",
    "{{ ('ä%' * 450000) | urlencode }}",
    "{{ ('\"' * 170000) | escape | length }}",
    "{{ " + _L + " | map('upper') | list | length }}",
    "{{ " + _L + " | map('string') | map('int') | list | length }}",
    "{% set l = [1] %}{% set big = 2 ** 4000 %}" + _often("l[big]"),
    "{{ " + _L + " | rejectattr('a', 'eq', 3) | list | length }}",
    "{{ " + _L + " | batch(1) | list | length }}",
    "{{ " + _L + " | join | length }}",
    "{{ " + _L + " | map('round') | list | length }}",
    "{{ (rows * 45) | sort(attribute='a,b,c.d') | length }}",
    "{{ (rows * 45) | groupby('b') | length }}",
    "{{ (rows * 45) | string | length }}",
    "{{ (rows * 45) == (rows * 45) }}",
    "{{ (rows * 45) | tojson(indent=2) | length }}",
    "{{ ('[' ~ '[],' * 300000 ~ '1]') | fromjson | length }}",
    "{{ (('%(a)s' * 2000) % {'a': 2 ** 2000}) | length }}",
    _often("(2 ** 2000) // 3 % 12345678901234567890"),
    _often("'{:1000.500f}'.format(1.1e300)"),
)
assert len(WORST) == 30

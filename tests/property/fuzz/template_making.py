"""Templates of every operation on every kind of value, and random combinations of them, over large values."""

import random
from collections.abc import Iterator
from typing import Any

from shared.dsl.templates.costs import FILTER_COSTS, METHOD_COSTS, TEST_COSTS
from shared.dsl.templates.result_view import view
from shared.events.outcome import Result

_ROWS = [{"a": n % 97, "b": f"name {n}", "c": {"d": [n, n + 1]}} for n in range(20_000)]
SCOPE: dict[str, Any] = {
    "s": "aB" * 450_000, "sp": "a " * 450_000, "u": "äÖ𝐚" * 100_000, "q": "\"<&" * 100_000, "z": "\0" * 300_000,
    "nl": "\n" * 300_000, "dots": ".a" * 200_000, "t": "abc", "digits": "9" * 4200, "s2": "aB" * 449_999 + "xy",
    "half": "a" * 20_000 + "b" + "a" * 20_000, "pct": "%(a)s" * 2000, "form": "{0!r:.0}" * 2000, "n": 7, "f": 1.1e-300,
    "big": 2**4000 - 1, "js": "[" + "[],{\"a\":1}," * 40_000 + "1]", "nums": "[" + "1," * 400_000 + "1]",
    "l": list(range(100_000)), "fl": [n / 7 for n in range(100_000)], "ls": [f"x{n}" for n in range(100_000)],
    "long": ["a" * 50_000 + str(n) for n in range(20)], "same": ["aB" * 449_999 + "xz"] * 1000, "rows": _ROWS,
    "one": [1], "empty": [], "bigs": [2**4000 - n for n in range(100)], "nest": [[[[n]] * 10] * 10 for n in range(500)],
    "m": {f"k{n}": n for n in range(50_000)}, "v": view(Result({"rows": _ROWS, "row_count": 1, "columns": []}, "sql")),
}
ARGUMENTS = {
    "batch": ["3", "1", "100000, 0"], "slice": ["3", "100000, 0"], "map": ["'upper'", "attribute='b'", "'string'",
    "'default', s", "'replace', 'a', s", "'tojson'", "attribute='c.d.0'", "'int'"], "select": ["'odd'", "'in', l",
    "'eq', s2", ""], "reject": ["'lower'", "'string'"], "selectattr": ["'a'", "'a', 'odd'", "'b', 'in', ls"],
    "rejectattr": ["'a', 'eq', 3"], "sort": ["", "attribute='b'", "attribute='c.d'", "reverse=true", "attribute='a,b'"],
    "groupby": ["'a'", "'b'"], "sum": ["", "attribute='a'"], "unique": ["", "attribute='b'", "true"],
    "min": ["", "attribute='b'"], "max": ["", "attribute='a'"], "join": ["", "', '", "s", "', ', attribute='b'"],
    "replace": ["'a', 'bb'", "'', 'x'", "half, ''", "'a', ''", "s, s2"], "round": ["", "100", "-100, 'ceil'"],
    "indent": ["", "100", "s"], "center": ["1000000"], "truncate": ["10", "800000", "800000, true"],
    "trim": ["", "s", "'aB '", "half"], "format": ["1", "s", "s, s", "a=1", "f"], "tojson": ["", "indent=2"],
    "int": ["", "0, 16", "0, 36"], "default": ["s", "s, true"], "dictsort": ["", "by='value'"],
}  # fmt: skip
CALLS = {
    "count": ["'a'", "half", "s2", "'ab' * 100", "5"], "endswith": ["s2", "'a'"], "find": ["'b'", "half", "s2"],
    "index": ["'B'", "99999"], "partition": ["'x'", "half"], "removeprefix": ["s2"], "removesuffix": ["s2"],
    "rfind": ["'b'", "half", "s2", "'a' * 50 ~ 'b' ~ 'a' * 50"], "rindex": ["half"], "rpartition": ["half"],
    "rsplit": ["", "' '", "half"], "split": ["", "' '", "'a'", "half"], "startswith": ["s2"], "strip": ["",
    "half", "s"],
    "lstrip": ["s2"], "rstrip": ["'aB'"], "center": ["1000000"], "ljust": ["1000000, 'x'"], "rjust": ["9"],
    "zfill": ["1000000"], "replace": ["'a', 'b'", "'a', 'bc'", "'', 'x'", "half, 'x'"], "get": ["'k1'", "s", "s, l"],
    "format": ["s", "l", "s, s, a=s", "f", "big", "rows"], "join": ["ls", "l", "long", "fl", "rows"],
}  # fmt: skip
TESTED = {"divisibleby": ["3", "s"], "in": ["l", "ls", "s2", "same", "m", "rows", "nest"], "sameas": ["s"]}
BARE = [
    "s + s2", "l + l", "s * 2", "[s] * 1000", "big * 3", "big // 3", "big % 12345678901234567890123",
    "big - 1", "s == s2",
    "s < s2", "ls == l", "rows == v", "same == long", "nest == nest", "s[::-1]", "s[1:]", "l[::2]", "rows[:1000]",
    "s ~ s", "l ~ ''", "big ~ ''", "fl ~ ''", "f ~ ''", "pct % {'a': s}", "pct % {'a': t}", "'%.999f' % f",
    "'%d' % big",
    "form.format(s)", "form.format(t)", "'{:1000.500f}'.format(f)", "s in s2", "half in s", "s2 in same", "n in l",
    "[1] in nest", "'k' in m", "dict(m)", "dict(ls)", "range(100000)", "namespace(m)", "{s: s2}",
    "[s, s, s]", "s if s2 else t",
    "gone[s]", "gone.a.b.c", "m[s]", "m.k1", "rows[5].c.d[0]", "v.rows", "v[0]", "not s", "-big", "n and s",
    "2 ** 4000",
]  # fmt: skip


def in_loop(expression: str) -> str:
    return "{% for i in range(90000) %}{% set x = " + expression + " %}{% endfor %}"


def each_expression() -> Iterator[str]:
    """Every operation on every kind of value."""
    yield from BARE
    for name in SCOPE:
        for filter_ in FILTER_COSTS:
            for args in ARGUMENTS.get(filter_, [""]):
                yield f"{name} | {filter_}({args})"
        for test in TEST_COSTS:
            if test[0].isalpha():
                for args in TESTED.get(test, ["s2"] if test in _COMPARING else [""]):
                    yield f"{name} is {test}" + (f"({args})" if args else "")
        for method in METHOD_COSTS:
            for args in CALLS.get(method, [""]):
                yield f"{name}.{method}({args})"


_COMPARING = ("eq", "equalto", "ge", "greaterthan", "gt", "le", "lessthan", "lt", "ne")


def random_expression(chance: random.Random, depth: int) -> str:
    if depth == 0:
        return chance.choice([*SCOPE, "1", "'a'", "[]", "i", "i ~ ''", "big", "-1", "10**9", "'a' * 1000", "[s, s2]"])
    inner = random_expression(chance, depth - 1)
    match chance.randrange(9):
        case 0 | 1 | 2:
            filter_ = chance.choice([*FILTER_COSTS])
            known = ARGUMENTS.get(filter_, [""])
            args = chance.choice([*known, random_expression(chance, 0)])
            return f"({inner} | {filter_}({args}))"
        case 3 | 4:
            method = chance.choice([*METHOD_COSTS])
            return f"({inner}).{method}({chance.choice([*CALLS.get(method, ['']), random_expression(chance, 0)])})"
        case 5:
            test = chance.choice([each for each in TEST_COSTS if each[0].isalpha()])
            args = f"({random_expression(chance, 0)})" if test in TESTED or test in _COMPARING else ""
            return f"({inner} is {test}{args})"
        case 6:
            sign = chance.choice(["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", ">=", "in", "not in",
    "and", "or"])
            return f"({inner} {sign} {random_expression(chance, chance.randrange(depth))})"
        case 7:
            return f"({inner})[{chance.choice(['0', ':', '::-1', ':1000', 's', '1::2', '-1'])}]"
        case _:
            return chance.choice(["[{0}, {0}]", "{{'a': {0}}}", "[{0}] * 1000", "({0}) ~ ({0})"]).format(inner)


BLOCKS = (
    ("{% for i in x %}", "{% endfor %}"), ("{% for i, j in x if i %}{{ loop.index }}", "{% endfor %}"),
    ("{% for i in f(*x) %}{% else %}", "{% endfor %}"), ("{% for i in range(9) %}", "{% else %}{{ i }}{% endfor %}"),
    ("{% with i = x %}", "{% endwith %}"), ("{% set i %}", "{% endset %}"), ("{% set y.a | upper %}", "{% endset %}"),
    ("{% if x %}", "{% else %}{% set i = 1 %}{% endif %}"), ("{% if x %}{% elif y %}", "{% endif %}"),
)


def nested_blocks(chance: random.Random) -> str:
    """One kind within itself, or all within each other, up to more than there may be."""
    depth, count = chance.choice((2, 5, 10, 19, 20, 21, 40, 70, 78, 81)), chance.choice((1, 1, 2, 4))
    kinds = chance.sample(BLOCKS, count)
    chosen = [kinds[level % len(kinds)] for level in range(depth)]
    return "".join(opening for opening, _ in chosen) + "{{ i }}" + "".join(closing for _, closing in reversed(chosen))


def random_template(chance: random.Random) -> str:
    expression = random_expression(chance, chance.randint(1, 4))
    match chance.randrange(4):
        case 0:
            return "{{ " + expression + " }}"
        case 1:
            return "x {{ " + expression + " }} y"
        case 2:
            other = random_expression(chance, 2)
            return ("{% set g = namespace(v=" + other + ") %}{% for i in range(1000) %}{% set g.v = "
                    + expression.replace("half", "g.v") + " %}{% endfor %}")
        case _:
            return in_loop(expression)

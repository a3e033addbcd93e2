"""SQL texts: outputs are bound, never spliced (LANGUAGE: SQL)."""

from typing import Any

import pytest

from shared.dsl.template import Sql, render_sql
from shared.errors import TemplateError

SCOPE: dict[str, Any] = {"x": 1, "s": "a'b", "l": [1, 2], "t": "public.us\"ers", "on": True, "d": {"k": None}}


@pytest.mark.parametrize(
    ("source", "text", "params"),
    [
        ("SELECT 1", "SELECT 1", []),
        ("SELECT * FROM u WHERE id = {{ x }}", "SELECT * FROM u WHERE id = $1", [1]),
        ("a = {{ x }} AND b = {{ s }} OR c={{ x }}", "a = $1 AND b = $2 OR c=$3", [1, "a'b", 1]),
        ("v = '{{ s }}'", "v = $1", ["a'b"]),
        ("v = '{{ s }}'::text, '{{ x }}'", "v = $1::text, $2", ["a'b", 1]),
        ("v = E'{{ s }}' OR N'{{ s }}'", "v = $1 OR $2", ["a'b", "a'b"]),
        ("('{{ s }}')", "($1)", ["a'b"]),
        ("v = 'it''s' AND w = {{ x }}", "v = 'it''s' AND w = $1", [1]),
        (r"v = E'it\'s' AND w = {{ x }}", r"v = E'it\'s' AND w = $1", [1]),
        (r"v = 'a\' AND w = {{ x }}", r"v = 'a\' AND w = $1", [1]),
        ("'' || {{ x }}", "'' || $1", [1]),
        ("'%' || {{ s }} || '%'", "'%' || $1 || '%'", ["a'b"]),
        ("SELECT \"it's\", {{ x }}", "SELECT \"it's\", $1", [1]),
        ("$$ it's $$, {{ x }}", "$$ it's $$, $1", [1]),
        ("$f$ ' $$ $f$, {{ x }}", "$f$ ' $$ $f$, $1", [1]),
        ("SELECT $${{ x }}$$, $t${{ x }}$t$", "SELECT $1, $2", [1, 1]),
        ("a$b$c, {{ x }}", "a$b$c, $1", [1]),
        ("1 -- it's {{ gone }}\n, {{ x }}", "1 -- it's \n, $1", [1]),
        ("1 /* it's /* {{ x }} */ ' */ + {{ x }}", "1 /* it's /*  */ ' */ + $1", [1]),
        ("FROM {{ t | identifier }} WHERE a = {{ x }}", 'FROM "public"."us""ers" WHERE a = $1', [1]),
        ("FROM s.{{ 'a; DROP' | identifier }}", 'FROM s."a; DROP"', []),
        ('FROM "{{ t | identifier }}"', 'FROM "public"."us""ers"', []),
        ("{% if on %}a = {{ x }}{% else %}b{% endif %}", "a = $1", [1]),
        ("({% for i in l %}{{ i }}{{ '' if false else i }}{% endfor %})", None, []),
        ("IN ({% for i in l %}{% if not loop.first %}, {% endif %}{{ i }}{% endfor %})", "IN ($1, $2)", [1, 2]),
        ("{% set q %}%{{ s }}%{% endset %}LIKE {{ q }}", "LIKE $1", ["%a'b%"]),
        ("{{ d }}, {{ l }}, {{ d.k }}", "$1, $2, $3", [{"k": None}, [1, 2], None]),
        ("SELECT $1, $2", "SELECT $1, $2", []),
        ("{% if on %}SELECT $1{% endif %}", "SELECT $1", []),
        ("{{ ['x; y'] | map('#name') | first }}", "$1", [["x; y", True]]),
    ],
)
def test_outputs_are_bound(source: str, text: str | None, params: list[Any]) -> None:
    if text is None:
        with pytest.raises(TemplateError, match="touches"):
            render_sql(source, SCOPE)
        return
    assert render_sql(source, SCOPE) == Sql(text, params)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("LIKE '%{{ s }}%'", r"'%' \|\| \{\{ x \}\} \|\| '%'"),
        ("'{{ s }} '", "longer literal"),
        ("' {{ s }}'", "longer literal"),
        ("'{{ s }}{{ x }}'", "longer literal"),
        ("'{{ s }}''b'", "longer literal"),
        ("E'a\\'{{ s }}'", "longer literal"),
        ("'{{ s }}", "longer literal"),
        ("'{{ t | identifier }}'", "identifier is not a text"),
        ('FROM "{{ s }}"', r"\| identifier"),
        ('FROM "a{{ t | identifier }}"', "longer literal"),
        ("DO $$ {{ x }} $$", "dollar-quoted"),
        ("SELECT $${{ x }}!$$", "dollar-quoted"),
        ("SELECT $a${{ x }}$b$", "dollar-quoted"),
        ("SELECT $${{ t | identifier }}$$", "dollar-quoted"),
        ("DO $f$ $$ {{ t | identifier }} $f$", "dollar-quoted"),
        ("tbl_{{ x }}", "touches"),
        ("{{ x }}5", "touches"),
        ("${{ x }}", "touches"),
        ("{{ x }}{{ x }}", "touches"),
        ("'{{ x }}''{{ x }}'", "longer literal"),
        ("B'{{ x }}'", "touches"),
        ("tbl_{{ t | identifier }}", "touches"),
        ('"a"{{ t | identifier }}', "touches"),
        ("{{ x }} = $1", "numbered"),
        ("{{ gone }}", "'gone' is undefined"),
        ("{{ '' | identifier }}", "an identifier is"),
        ("{{ 'a..b' | identifier }}", "an identifier is"),
        ("{{ x | identifier }}", "an identifier is"),
        ("{% for i in range(40000) %}, {{ i }}{% endfor %}", "limit 32767"),
        ("{% for i in range(400) %}" + "a" * 5000 + "{% endfor %}", "limit 1048576"),
        ("{{ x", "unexpected end"),
    ],
)
def test_what_cannot_be_bound_is_refused_with_the_reason(source: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        render_sql(source, SCOPE)

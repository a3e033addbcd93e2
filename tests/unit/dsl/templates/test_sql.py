"""SQL texts: outputs are bound, never spliced (LANGUAGE: SQL)."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.dsl.model.texts import Text
from shared.dsl.templates.budget import Limit
from shared.dsl.templates.compiler import Bound
from shared.dsl.templates.evaluate import Sql, render_sql
from shared.dsl.templates.sql_tokens import MARK, tokens
from shared.dsl.templates.sql_writer import MAX_PARAMS, Writer
from shared.errors import TemplateError

SCOPE: dict[str, Any] = {"x": 1, "s": "a'b", "l": [1, 2], "t": "public.us\"ers", "on": True, "d": {"k": None},
                         "nul": "a\0b", "sql": "DELETE FROM t WHERE a = 'x'; SELECT 1", "e": "it's ''so''"}


@pytest.mark.parametrize(
    ("source", "text", "params"),
    [
        ("SELECT 1", "SELECT 1", []),
        ("SELECT * FROM u WHERE id = {{ x }}", "SELECT * FROM u WHERE id = $1", [1]),
        ("a = {{ x }} AND b = {{ s }} OR c={{ x }}", "a = $1 AND b = $2 OR c=$1", [1, "a'b"]),
        ("v = '{{ s }}'", "v = $1", ["a'b"]),
        ("v = '{{ s }}'::text, '{{ x }}'", "v = $1::text, $2", ["a'b", 1]),
        ("v = E'{{ s }}' OR N'{{ s }}'", "v = $1 OR $1", ["a'b"]),
        ("('{{ s }}')", "($1)", ["a'b"]),
        ("v = 'it''s' AND w = {{ x }}", "v = 'it''s' AND w = $1", [1]),
        (r"v = E'it\'s' AND w = {{ x }}", r"v = E'it\'s' AND w = $1", [1]),
        (r"v = 'a\' AND w = {{ x }}", r"v = 'a\' AND w = $1", [1]),
        ("'' || {{ x }}", "'' || $1", [1]),
        ("'%' || {{ s }} || '%'", "'%' || $1 || '%'", ["a'b"]),
        ("SELECT \"it's\", {{ x }}", "SELECT \"it's\", $1", [1]),
        ("$$ it's $$, {{ x }}", "$$ it's $$, $1", [1]),
        ("$f$ ' $$ $f$, {{ x }}", "$f$ ' $$ $f$, $1", [1]),
        ("SELECT $${{ x }}$$, $t${{ x }}$t$", "SELECT $1, $1", [1]),
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
    ],
)
def test_outputs_are_bound(source: str, text: str | None, params: list[Any]) -> None:
    if text is None:
        with pytest.raises(TemplateError, match="touches"):
            render_sql(source, SCOPE)
        return
    found = render_sql(source, SCOPE)
    assert (found.text, found.params) == (text, params)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("E'a\\'{{ s }}'", "with escapes"),
        ("'{{ s }}", "does not end"),
        ("'a {{ s }}", "does not end"),
        ("'{{ t | identifier }}'", "identifier is not a text"),
        ('FROM "a{{ t | identifier }}"', r"\| identifier"),
        ('FROM "{{ s }}', r"\| identifier"),
        ("CREATE FUNCTION f() RETURNS int AS $$ SELECT {{ x }} $$", "dollar-quoted"),
        ("DO $$ BEGIN EXECUTE 'SELECT {{ s }}'; END $$", "EXECUTE"),
        ("DO $$ a{{ x }} $$", "touches"),
        ("DO $$ {{ x }}", "does not end"),
        ("SELECT $${{ x }}!$$", "dollar-quoted"),
        ("SELECT $a${{ x }}$b$", "dollar-quoted"),
        ("SELECT $${{ t | identifier }}$$", "dollar-quoted"),
        ("DO $f$ $$ {{ t | identifier }} $f$", "dollar-quoted"),
        ("tbl_{{ x }}", "touches"),
        ("{{ x }}5", "touches"),
        ("${{ x }}", "touches"),
        ("{{ x }}{{ x }}", "touches"),
        ("'{{ x }}'5", "touches"),
        ("'{{ x }}'{{ x }}", "touches"),
        ("'a{{ x }}'b", "touches"),
        ("B'{{ x }}'", "touches"),
        ("'{{ x }}'$$5$$", "touches"),
        ("{{ x }}$5", "touches"),
        ("FROM {{ t | identifier }}\"a\"", "touches"),
        ("FROM tbl_{{ t | identifier }}", "touches"),
        ("tbl_{{ t | identifier }}", "touches"),
        ('"a"{{ t | identifier }}', "touches"),
        ("{{ x }} = $1", "numbered"),
        ("{{ gone }}", "'gone' is undefined"),
        ("{{ '' | identifier }}", "an identifier is"),
        ("{{ 'a..b' | identifier }}", "an identifier is"),
        ("{{ x | identifier }}", "an identifier is"),
        ("{% for i in range(32768) %}, {{ i }}{% endfor %}", "limit 1000000 units"),
        ("{% for i in range(400) %}" + "a" * 5000 + "{% endfor %}", "limit 1048576"),
        ("{{ x", "unexpected end"),
        ("INSERT INTO {{ x }}", "an identifier is"),
        ("INSERT INTO {{ none_here }}", "undefined"),
        ("SELECT 'a {{ none_here }}'", "undefined"),
        ('FROM "{{ nul }}"', "a name in quotes is"),
        ("FROM {{ nul }}", "an identifier is"),
        ("{{ l }}", "must yield text"),
        ("{{ x }}", "must yield text"),
    ],
)
def test_what_cannot_be_bound_is_refused_with_the_reason(source: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        render_sql(source, SCOPE)


@pytest.mark.parametrize(
    ("source", "text", "params"),
    [
        ("LIKE '%{{ s }}%'", "LIKE $1", ["%a'b%"]),
        ("'{{ s }} '", "$1", ["a'b "]),
        ("'{{ s }}:{{ x }}', {{ x }}", "$1, $2", ["a'b:1", 1]),
        ("'{{ x }}''{{ x }}'", "$1", ["1'1"]),
        ("'it''s {{ d.k }}'", "$1", ["it's None"]),
        ("""'{"a": "{{ x }}"}'::jsonb""", "$1::jsonb", ['{"a": "1"}']),
        ("N'a{{ x }}' || E'a{{ x }}'", "$1 || $1", ["a1"]),
        ("'a\n{{ x }}'", "$1", ["a\n1"]),
        ("'-- {{ x }}' -- {{ x }}", "$1 -- ", ["-- 1"]),
        ("'{% if on %}{{ x }}{% endif %}!'", "$1", ["1!"]),
        ("'{{ s }}''; DROP TABLE t; --'", "$1", ["a'b'; DROP TABLE t; --"]),
    ],
)
def test_a_literal_with_outputs_is_one_parameter_with_its_rendered_text(source: str, text: str, params: Any) -> None:
    found = render_sql(source, SCOPE)
    assert (found.text, found.params) == (text, params)


@pytest.mark.parametrize(
    ("source", "text", "params"),
    [
        ("now() - interval '{{ x }} days'", "now() - CAST($1 AS interval)", ["1 days"]),
        ("INTERVAL '{{ x }}' DAY + 1", "CAST($1 AS interval) + 1", ["1 DAY"]),
        ("DATE '{{ s }}' AND day = {{ x }}", "CAST($1 AS date) AND day = $2", ["a'b", 1]),
        ("a.date = '{{ s }}'", "a.date = $1", ["a'b"]),
    ],
)
def test_a_constant_with_its_type_becomes_a_cast(source: str, text: str, params: Any) -> None:
    made = render_sql(source, SCOPE)
    assert (" ".join(made.text.split()), made.params) == (text, params)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("INSERT INTO {{ t }} VALUES (1)", 'INSERT INTO "public"."us""ers" VALUES (1)'),
        ("DROP TABLE IF EXISTS s.{{ 'A; x' }}", 'DROP TABLE IF EXISTS s."A; x"'),
        ("CREATE TABLE IF NOT EXISTS {{ 'a' }} (b int)", 'CREATE TABLE IF NOT EXISTS "a" (b int)'),
        ("CREATE INDEX Idx_{{ 'Ab' }}_{{ x }} ON t (a)", 'CREATE INDEX "idx_Ab_1" ON t (a)'),
        ("SELECT * FROM events_{{ x }} JOIN {{ 'b' }} ON a", 'SELECT * FROM "events_1" JOIN "b" ON a'),
        ("SELECT (SELECT 1 FROM {{ 'b' }})", 'SELECT (SELECT 1 FROM "b")'),
        ('SELECT "{{ t }}" FROM "s"."a_{{ s }}"', "SELECT \"public.us\"\"ers\" FROM \"s\".\"a_a'b\""),
        ("UPDATE \"s\".{{ 'b' }} SET a = 1", 'UPDATE "s"."b" SET a = 1'),
        ("SELECT * FROM 'gs://{{ t }}/{{ x }}.csv'", 'SELECT * FROM "gs://public.us""ers/1.csv"'),
    ],
)
def test_a_value_where_only_a_name_can_stand_is_quoted_as_one(source: str, text: str) -> None:
    assert render_sql(source, SCOPE) == Sql(text, [])


@pytest.mark.parametrize(
    "source",
    ["SELECT EXTRACT(year FROM {{ x }})", "SELECT a IS NOT DISTINCT FROM {{ x }}", "SELECT trim(FROM {{ x }})",
     "COPY t FROM '{{ x }}'", "SELECT substring(a FROM {{ x }} FOR 2)", "WHERE EXISTS {{ x }}", "SELECT 1.{{ x }}"],
)
def test_a_value_that_may_be_no_name_is_bound(source: str) -> None:
    assert render_sql(source, SCOPE).params == [1]


def test_quotes_doubled_for_a_literal_are_single_in_the_bound_value() -> None:
    double = """{{ e | replace("'", "''") }}"""
    assert render_sql(f"'{double}'", SCOPE).params == ["it's ''so''"]
    assert render_sql(f"'a {double}'", SCOPE).params == ["a it's ''so''"]
    assert render_sql(f"= {double}", SCOPE).params == ["it''s ''''so''''"]


def test_a_command_that_is_one_expression_is_the_statement_itself() -> None:
    assert render_sql(" {{ sql }}\n", SCOPE) == Sql(SCOPE["sql"], [])
    assert render_sql("{{ sql }};", SCOPE).params == [SCOPE["sql"]]


BOUND = ["= {{ x }}", "= '{{ x }}'", "LIKE '%{{ x }}''{{ x }}'", "interval '{{ x }}' day", "$t${{ x }}$t$",
         "-- {{ x }}\n",
         "= E'{{ x }}', {{ x }}", "COPY t TO 'a{{ x }}'"]


@given(st.text())
def test_no_value_changes_the_text_of_a_statement(value: str) -> None:
    for source in BOUND:
        assert render_sql(source, {"x": value}).text == render_sql(source, {"x": "a"}).text


NAMES = ["INSERT INTO {{ x }} VALUES (1)", "SELECT * FROM a.t_{{ x }}_b, c", 'SELECT "{{ x }}", "a {{ x }}"',
         "SELECT * FROM '{{ x }}.csv' WHERE a"]


@given(st.text(min_size=1).filter(lambda text: not set(text) & {"\0", "."}))
def test_no_value_is_more_than_a_name(value: str) -> None:
    for source in NAMES:
        made, plain = (list(tokens(render_sql(source, {"x": x}).text)) for x in (value, "a"))
        assert [token.kind for token in made] == [token.kind for token in plain]
        assert [token for token in made if token.kind != "name"] == [token for token in plain if token.kind != "name"]
        assert all(value in token.body.replace('""', '"') for token in made if token.kind == "name" and token.body)


@given(st.text(alphabet="'\"$\\;-/*{}%#ae1x \n.()"))
def test_any_text_is_read_or_refused(source: str) -> None:
    try:
        render_sql(source, {"x": 1, "a": "b", "e": [1]})
    except TemplateError:
        return


def test_a_statement_has_as_many_parameters_as_a_server_takes() -> None:
    writer = Writer([Bound(1, False, False)] * (MAX_PARAMS + 1), lambda _: None)
    with pytest.raises(Limit, match="limit 32767"):
        writer.write(", ".join([MARK] * (MAX_PARAMS + 1)))


def test_no_filter_makes_a_value_a_name() -> None:
    with pytest.raises(TemplateError, match="there is no filter"):
        render_sql("= {{ ['x; y'] | map('#name') | first }}", SCOPE)


@pytest.mark.parametrize(("source", "text", "params", "texts"), [
    ("SELECT x / {{ x }} AS y GROUP BY x / {{ x }}", "SELECT x / $1 AS y GROUP BY x / $1", [1], set()),
    ("SELECT {{ x }}, '{{ x }}', '{{ x }}'", "SELECT $1, $2, $2", [1, 1], {2}),
    ("{{ x }}, {{ x }}::text, {{ x }}::TEXT, CAST({{ x }} AS text)", "$1, $2::text, $2::TEXT, CAST($2 AS text)",
     [1, 1], set()),
    ("{{ x }} + {{ x + 0 }}", "$1 + $2", [1, 1], set()),
    ("{{ l }} || {{ l }}", "$1 || $1", [[1, 2]], set()),
    ("{% for i in [1, 1, 2] %}SELECT {{ i }};{% endfor %}", "SELECT $1;SELECT $1;SELECT $2;", [1, 2], set()),
    ("date '{{ s }}', interval '{{ s }}' day, interval '{{ s }}' day",
     "CAST($1 AS date), CAST($2 AS interval) , CAST($3 AS interval) ", ["a'b", "a'b DAY", "a'b DAY"], set()),
])
def test_the_same_expression_is_the_same_parameter(
    source: str, text: str, params: list[Any], texts: set[int]
) -> None:
    """Unless its value is another one, or a cast or quotes give one of the places a type of its own."""
    assert render_sql(source, SCOPE) == Sql(text, params, tuple(texts))


@pytest.mark.parametrize(("source", "said"), [
    ("SELECT {{ x }}, {{ l | first }}, {{ x }}", ["{{ x }}", "{{ l | first }}"]),
    ("SELECT '{{ x }} of {{ s }}', {{- x -}} , {{ {'a': {'b': 1}} }}",
     ["{{ x }} and {{ s }}", "{{ x }}", "{{ {'a': {'b': 1}} }}"]),
    ("{% set y %}{{ s }}{% endset %}{% for i in [1, 2] %}SELECT {{ i }}, {{ y }};{% endfor %}{{ x }}",
     ["{{ i }}", "{{ y }}", "{{ i }}", "{{ x }}"]),
    (Text("SELECT {{ iter.start_x }}, {{ s }}", "SELECT {{ x }}, {{ s }}"), ["{{ x }}", "{{ s }}"]),
    (Text("SELECT {{ s }}", "data.items"), ["{{ s }}"]), ("SELECT {{ t | identifier }}", []),
])
def test_each_parameter_is_known_as_its_author_wrote_it(source: str, said: list[str]) -> None:
    assert list(render_sql(source, {**SCOPE, "iter": {"start_x": 1}}).said) == said


@pytest.mark.parametrize(("source", "text"), [
    ("DO $$ BEGIN PERFORM {{ x }}, '{{ s }}', 'n {{ s }}'; END $$",
     "DO $v_$ BEGIN PERFORM 1, $v$a'b$v$, $v$n a'b$v$; END $v_$"),
    ("DO LANGUAGE plpgsql $b$ BEGIN x := {{ d }}; y := {{ none }}; z := -{{ -2 }}; END $b$",
     'DO LANGUAGE plpgsql $v_$ BEGIN x := $v${"k":null}$v$::jsonb; y := NULL; z := -(-2); END $v_$'),
    ("DO $$ BEGIN IF true THEN SELECT 1 FROM {{ t }}; END IF; -- {{ s }}\nEND $$; SELECT {{ x }}",
     'DO $v$ BEGIN IF true THEN SELECT 1 FROM "public"."us""ers"; END IF; -- \nEND $v$; SELECT $1'),
    ("DO $${{ s }}$$", "DO $1"),
])
def test_the_program_of_a_do_has_literals(source: str, text: str) -> None:
    assert render_sql(source, SCOPE).text == text


@pytest.mark.parametrize(
    "value", ["$$", "$v$", "$v", "$v_$ $v__", "'; DROP TABLE t; --", "\\'", "$$; SELECT 1; $$", "$"])
def test_no_value_ends_the_quotes_around_it_or_the_program(value: str) -> None:
    made = render_sql("DO $$ BEGIN PERFORM {{ x }}; END $$", {"x": value}).text
    outer = re.fullmatch(r"DO (\$v_*\$)(.*)\1", made, re.DOTALL)
    assert outer is not None
    assert made.count(outer[1]) == 2
    inner = re.fullmatch(r" BEGIN PERFORM (\$v_*\$)(.*)\1; END ", outer[2], re.DOTALL)
    assert inner is not None
    assert (inner[2], outer[2].count(inner[1])) == (value, 2)

"""Results as templates see them, the names they need, and the filters of the language."""

from typing import Any

import pytest

from shared.dsl.model.plan import EVERYTHING, Needs
from shared.dsl.templates.evaluate import evaluate, truth
from shared.dsl.templates.needs import names_used
from shared.dsl.templates.result_view import view
from shared.errors import TemplateError
from shared.events.outcome import Ref, Result

ASKED = {"status_code": 200, "headers": {}, "data": {"n": 1}, "url": "http://a/b"}
HTTP = {"status_code": 200, "headers": {"a": "b"}, "data": {"paging": {"page": 1}, "headers": "own", "result": 5}}
SQL = {"rows": [{"user_id": 7}, {"user_id": 8}], "row_count": 2, "columns": ["user_id"]}
SCOPE: dict[str, Any] = {
    "http": view(Result(HTTP, "http")),
    "asked": view(Result(ASKED, "http")),
    "named": view(Result({**ASKED, "data": {"url": "own"}}, "http")),
    "sql": view(Result(SQL, "sql")),
    "loop_step": view(Result({"results": [{"n": 1}, {"n": 2}], "count": 3, "failed": 1}, "loop")),
    "py": view(Result({"field": 4, "items": [1]})),
    "wrapped": view(Result({"data": {"x": 1}})),
    "made": view(Result({"status": "success", "data": {"x": 1, "status": "own"}}, "envelope")),
    "num": view(Result(5)),
    "txt": view(Result("abc")),
    "nothing": view(Result()),
    "big": view(Result(ref=Ref("nats", "k", "c", 9))),
    "outcome": {"status": "ok", "result": view(Result(HTTP, "http"))},
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("http", HTTP), ("http.data", HTTP["data"]), ("http.result", HTTP["data"]), ("http.status_code", 200),
        ("http.result.status_code", 200), ("http.paging.page", 1), ("http.headers", {"a": "b"}),
        ("http.data.headers", "own"), ("http['paging'].page", 1), ("http.gone | default(1)", 1),
        ("http | tojson", '{"paging":{"page":1},"headers":"own","result":5}'), ("http | length", 3),
        ("asked", ASKED), ("asked.url", "http://a/b"), ("asked.result.url", "http://a/b"), ("named.url", "own"),
        ("outcome.result.data.paging.page", 1), ("outcome", {"status": "ok", "result": HTTP}),
        ("sql", SQL), ("sql.rows", SQL["rows"]), ("sql.data", SQL["rows"]), ("sql.result", SQL["rows"]),
        ("sql[0].user_id", 7), ("sql.result[0].user_id", 7), ("sql.row_count", 2), ("sql.columns", ["user_id"]),
        ("sql | map(attribute='user_id')", [7, 8]), ("sql | first", {"user_id": 7}), ("sql[1:]", [{"user_id": 8}]),
        ("{'user_id': 8} in sql", True), ("sql[9].a | default(0)", 0),
        ("loop_step", [{"n": 1}, {"n": 2}]), ("loop_step.results[1].n", 2), ("loop_step.count", 3),
        ("loop_step.failed", 1), ("loop_step.data | length", 2), ("loop_step[0].n", 1),
        ("py.field", 4), ("py.items", [1]), ("py.data.field", 4), ("py.result.field", 4),
        ("py", {"field": 4, "items": [1]}),
        ("py.get('field')", 4), ("'field' in py", True), ("wrapped.data.x", 1), ("wrapped.x is defined", False),
        ("made.x", 1), ("made.data.x", 1), ("made.result.x", 1), ("made.status", "success"),
        ("made.y is defined", False),
        ("made", {"status": "success", "data": {"x": 1, "status": "own"}}), ("made | length", 2),
        ("num", 5), ("num.data", 5), ("num.result", 5), ("num + 1", 6), ("1 + num", 6), ("num > 4 and 6 > num", True),
        ("-num", -5), ("num == 5", True), ("num in [5]", True), ("num | string", "5"),
        ("[10, 20, 30, 40, 50, 60][num]", 60),
        ("txt", "abc"), ("txt.data", "abc"), ("txt ~ '!'", "abc!"), ("txt.upper()", "ABC"), ("txt in 'xabcx'", True),
        ("'b' in txt", True), ("txt[0]", "a"), ("{txt: num}", {"abc": 5}), ("[num, http]", [5, HTTP]),
        ("nothing", None), ("nothing.data", None), ("nothing.a.b | default(1)", 1), ("txt is string", True),
        ("py is mapping", True), ("num is number", True), ("http | default(1)", HTTP),
        ("big.ref.store", "nats"), ("{'a': num} | tojson", '{"a":5}'), ("num ~ ''", "5"), ("sql == sql.rows", True),
    ],
)  # fmt: skip
def test_a_result_answers_for_its_payload_and_its_own_keys(expression: str, value: Any) -> None:
    assert evaluate("{{ " + expression + " }}", SCOPE) == value


def test_views_work_in_statements_and_conditions() -> None:
    assert evaluate("{% for r in sql %}{{ r.user_id }},{% endfor %}", SCOPE) == "7,8,"
    assert evaluate("n={{ num }} h={{ http.status_code }}", SCOPE) == "n=5 h=200"
    assert truth("{{ sql }}", SCOPE) is True
    assert truth("{{ nothing }}", SCOPE) is False
    with pytest.raises(TemplateError, match="'field' is undefined"):
        evaluate("{{ big.field }}", SCOPE)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("{'a': '<é>'} | tojson", '{"a":"<é>"}'), ("'[1, 2]' | fromjson", [1, 2]), ("'hé' | b64encode", "aMOp"),
        ("'aMOp' | b64decode", "hé"), ("'a.b\"c' | identifier", '"a"."b""c"'), ("'3' | int + 1", 4),
        ("'x' | int(7)", 7),
        ("'1.5' | float", 1.5), ("5 | string", "5"), ("[3, 4] | first", 3), ("'AB' | lower", "ab"),
        ("'aXb' | replace('X', '-')", "a-b"), ("[1, 2] | join(',')", "1,2"), ("[1, 1, 2] | unique", [1, 2]),
        ("[3, 1] | sort", [1, 3]), ("[1, 2, 3] | batch(2)", [[1, 2], [3]]), ("[1, 2] | reverse", [2, 1]),
        ("{'b': 1} | items", [["b", 1]]), ("2.567 | round(2)", 2.57), ("'a b' | urlencode", "a%20b"),
        ("'<a>' | escape", "&lt;a&gt;"), ("'%s!' | format('x')", "x!"), ("[{'a': 1}] | tojson(indent=2)",
        '[\n  {\n    "a": 1\n  }\n]'), ("'ab' | list", ["a", "b"]), ("dict(a=1)", {"a": 1}), ("' a ' | trim", "a"),
    ],
)  # fmt: skip
def test_filters(expression: str, value: Any) -> None:
    assert evaluate("{{ " + expression + " }}", {}) == value


ALL = frozenset({EVERYTHING})


@pytest.mark.parametrize(
    ("value", "needs"),
    [
        ("plain", Needs()),
        ({"a": ["{{ x.y }}", {"b": "{{ z }}"}], "n": 1},
         Needs(names=frozenset({"x", "z"}), parts={"x": frozenset("y")})),
        ("{{ ctx.a }}{{ ctx['b'].c }}{{ workload.d }}", Needs(ctx=frozenset("ab"), workload=frozenset("d"))),
        ("{{ ctx.get('a') }}{{ ctx.items }}", Needs(ctx=frozenset({"a", "items"}))),
        ("{{ ctx | tojson }}", Needs(ctx=ALL)),
        ("{{ ctx.items() }}", Needs(ctx=ALL)),
        ("{{ workload[key] }}", Needs(names=frozenset({"key"}), workload=ALL)),
        ("{{ f(ctx).a }}{{ ctx.b }}", Needs(names=frozenset("f"), ctx=frozenset({"b", EVERYTHING}))),
        ("{% for i in xs %}{{ i }}{{ loop.index }}{% set q = i %}{{ q }}{% endfor %}", Needs(names=frozenset({"xs"}))),
        ("{{ range(3) }}{{ dict(a=b) }}", Needs(names=frozenset("b"))),
        ("{{ range }}", Needs(names=frozenset({"range"}))),
        ("{{ x | default(y) if z is defined else iter.w }}",
         Needs(names=frozenset({"x", "y", "z", "iter"}), parts={"iter": frozenset("w")})),
        ("{{ x.a }}{{ x['b'].c }}{{ y.a }}{{ y }}", Needs(names=frozenset("xy"), parts={"x": frozenset("ab")})),
        ("{{ broken", Needs()),
    ],
)
def test_names_used(value: Any, needs: Needs) -> None:
    assert names_used(value) == needs


def test_the_payload_alone_answers_with_its_own_keys_first() -> None:
    """FX §3.3: `result` is unwrapped, so that `data` of a body that has such a key is that."""
    body = {"data": [1], "result": 2, "status_code": "mine"}
    seen = {"x": view(Result({"status_code": 200, "headers": {}, "data": body}, "http")), "y": view(Result({"n": 1}))}
    for text, wanted in {
        "x._payload": body, "x._payload.data": [1], "x._payload.result": 2, "x._payload.status_code": "mine",
        "x._payload.headers": {}, "x.data": body, "x.status_code": 200,
        "y._payload": {"n": 1}, "y._payload.data": {"n": 1},
    }.items():
        assert evaluate("{{ " + text + " }}", seen) == wanted, text


def test_headers_are_found_by_any_spelling_of_their_names() -> None:
    seen = {"x": view(Result({"status_code": 200, "headers": {"x-left": "3"}, "data": None}, "http"))}
    for text, wanted in {
        "x.headers['X-Left']": "3", "x.headers.get('X-LEFT')": "3", "x.headers.get('No', 1)": 1,
        "'X-Left' in x.headers": True, "'No' in x.headers": False, "x.headers['No'] is defined": False,
        "x.headers": {"x-left": "3"}, "x.headers | length": 1, "x.headers | list": ["x-left"],
        "x.headers == {'x-left': '3'}": True,
    }.items():
        assert evaluate("{{ " + text + " }}", seen) == wanted, text


def test_of_several_statements_what_is_kept_is_all_of_them() -> None:
    each = {"rows": [{"a": 1}], "row_count": 1, "columns": ["a"]}
    value = {"rows": [{"b": 2}], "row_count": 1, "columns": ["b"], "command_0": each, "commands": 2}
    seen = {"x": view(Result(value, "sql", fields={"part": 5}))}
    for name in ("result", "_payload"):
        for text, wanted in {
            "": value, ".command_0.rows": [{"a": 1}], ".data": [{"b": 2}], ".data.command_0": each, "[0].b": 2,
            ".result.command_0": each, ".part": 5, " | length": 1, ".commands": 2, ".data.commands": 2,
        }.items():
            assert evaluate("{{ x." + name + text + " }}", seen) == wanted, name + text

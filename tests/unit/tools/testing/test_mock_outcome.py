"""What a mock answers with has the shape of what the tool itself gives, so that rules read the same fields."""

from typing import Any

import pytest

from shared.events.outcome import Outcome
from shared.tools.base.guard import BadCall
from shared.tools.http import tool as http
from shared.tools.postgres import tool as postgres
from shared.tools.python import tool as python
from shared.tools.sql.call import Rows
from shared.tools.testing.mock_outcome import in_time, outcome

OK_HTTP = {"status": 200, "headers": {}}


@pytest.mark.parametrize(("value", "result"), [
    ({"data": [1]}, {"status_code": 200, "headers": {}, "data": [1]}),
    ({"status_code": 201, "headers": {"etag": "x"}}, {"status_code": 201, "headers": {"etag": "x"}, "data": None}),
    ({"data": 1, "url": "http://a/"}, {"status_code": 200, "headers": {}, "data": 1, "url": "http://a/"}),
    ({"url": 1}, {"status_code": 200, "headers": {}, "data": {"url": 1}}),
    ({"price": 1}, {"status_code": 200, "headers": {}, "data": {"price": 1}}),
    ([1], {"status_code": 200, "headers": {}, "data": [1]}),
    (None, {"status_code": 200, "headers": {}, "data": None}),
])
def test_an_http_result_is_the_envelope_or_the_body(value: Any, result: dict[str, Any]) -> None:
    made = outcome("http", "result", value)
    assert (made.status, made.shape, made.result) == ("ok", "http", result)
    assert made.http == {"status": result["status_code"], "headers": result["headers"]}


@pytest.mark.parametrize(("status", "retryable"), [(404, False), (429, True), (500, True)])
def test_a_status_of_400_or_more_is_an_error_however_it_is_written(status: int, retryable: bool) -> None:
    as_result = outcome("http", "result", {"status_code": status})
    as_error = outcome("http", "error", {"status": status})
    as_outcome = outcome("http", "outcome", {"status": "error", "http": {"status": status}})
    for made in (as_result, as_error, as_outcome):
        assert (made.status, made.shape) == ("error", "http")
        assert made.error is not None
        assert (made.error["kind"], made.error["retryable"]) == ("http", retryable)
        assert made.http == {"status": status, "headers": {}}
        assert made.result["status_code"] == status


def test_an_http_error_without_a_status_is_no_answer() -> None:
    made = outcome("http", "error", "no route to host")
    assert made.error == {"kind": "connect", "message": "no route to host", "retryable": True}
    assert made.http == http.blank()


ROWS = Rows(["id"])
ROWS.add([[1], [2]])


@pytest.mark.parametrize("value", [
    [{"id": 1}, {"id": 2}], {"rows": [{"id": 1}, {"id": 2}]}, {"rows": [{"id": 1}, {"id": 2}], "row_count": 2},
])
def test_a_sql_result_is_what_the_sql_kinds_give(value: Any) -> None:
    made = outcome("postgres", "result", value)
    assert (made.result, made.shape, made.pg) == (ROWS.result(), "sql", postgres.codes(None))
    assert outcome("duckdb", "result", value) == Outcome("ok", ROWS.result(), "sql")


def test_a_sql_result_may_be_one_row_nothing_or_a_count() -> None:
    assert outcome("postgres", "result", {"n": 3}).result == {"rows": [{"n": 3}], "row_count": 1, "columns": ["n"]}
    assert outcome("postgres", "result", None).result == {"rows": [], "row_count": 0, "columns": []}
    assert outcome("postgres", "result", {"row_count": 5}).result == {"rows": [], "row_count": 5, "columns": []}
    both = {"rows": [], "command_0": {"row_count": 1}}
    assert outcome("postgres", "result", both).result["command_0"] == {"row_count": 1}


@pytest.mark.parametrize("value", [0, True, "abc", {"rows": 5}, {"rows": {"id": 1}}])
def test_what_no_sql_gives_is_told(value: Any) -> None:
    with pytest.raises(BadCall, match="a list of rows, one row or nothing"):
        outcome("postgres", "result", value)


def test_an_error_that_a_template_made_of_something_else_is_its_message() -> None:
    for made in (outcome("shell", "error", 5), outcome("shell", "outcome", {"status": "error", "error": 5})):
        assert made.error == {"kind": "shell", "message": "5", "retryable": False}


@pytest.mark.parametrize(("code", "retryable"), [("40P01", True), ("42P01", False), ("08006", True)])
def test_a_postgres_error_has_its_code(code: str, retryable: bool) -> None:
    made = outcome("postgres", "error", {"code": code, "message": "no"})
    assert made.error == {"kind": "postgres", "message": "no", "retryable": retryable}
    assert made.pg == postgres.codes(code)


def test_python_outcomes_have_their_exception() -> None:
    assert outcome("python", "result", [1]).py == python.blank()
    made = outcome("python", "error", {"exception_type": "ValueError", "message": "ValueError: no"})
    assert made.error == {"kind": "python", "message": "ValueError: no", "retryable": False}
    assert made.py == {"exception_type": "ValueError"}


def test_an_outcome_is_taken_as_it_is_with_what_the_tool_always_says() -> None:
    made = outcome("http", "outcome", {"status": "ok", "result": {"status_code": 404}, "meta": {"a": 1}})
    assert (made.status, made.error, made.meta) == ("ok", None, {"a": 1})
    made = outcome("http", "outcome", {"status": "error", "error": {"kind": "decode", "message": "no JSON"},
                                       "result": {"data": "<html>"}, "http": OK_HTTP})
    assert made.error == {"kind": "decode", "message": "no JSON", "retryable": False}
    assert (made.result["data"], made.shape) == ("<html>", "http")


def test_other_kinds_answer_with_the_value_itself() -> None:
    assert outcome("shell", "result", {"exit_code": 0}) == Outcome("ok", {"exit_code": 0})
    made = outcome("shell", "error", {"exit_code": 3})
    says = {"kind": "shell", "message": "a mocked error of kind shell", "retryable": False}
    assert made.error == {**says, "exit_code": 3}


@pytest.mark.parametrize(("kind", "timeout", "after", "limit"), [
    ("http", {"read": 15}, 20, 15), ("http", {"read": 15, "total": 12}, 20, 12), ("http", {"connect": 5}, 20, None),
    ("postgres", 3, 4, 3), ("postgres", 3, 3, None), ("python", {"total": "0.5"}, 1, 0.5),
    ("python", {"read": 1}, 2, None),
    ("shell", None, 1e6, None),
])
def test_a_call_over_its_own_time_is_a_timeout(kind: str, timeout: Any, after: float, limit: float | None) -> None:
    given = outcome(kind, "result", 1 if kind == "shell" else None)
    took = in_time(kind, {} if timeout is None else {"timeout": timeout}, given, after)
    if limit is None:
        assert (took.outcome, took.seconds) == (given, after)
    else:
        assert took.seconds == limit
        assert took.outcome.error == {"kind": "timeout", "message": f"no result within {limit:g} s", "retryable": True}
        assert (took.outcome.http is not None, took.outcome.pg is not None) == (kind == "http", kind == "postgres")


def test_a_time_limit_that_is_none_is_an_error_of_the_call() -> None:
    took = in_time("http", {"timeout": "soon"}, outcome("http", "result", 1), 5.0)
    assert took.outcome.error is not None
    assert took.outcome.error["kind"] == "config"

"""The outcome that a mock stands for, in the shape in which a tool of that kind gives its own (LANGUAGE: shape of a
result), so that the rules of a playbook read the same fields in a test as in earnest."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from shared.answers.rehearsal.types import Took
from shared.events.outcome import Outcome, failed, ok, shape_of
from shared.tools.base.guard import BadCall, seconds
from shared.tools.http import tool as http
from shared.tools.postgres import tool as postgres
from shared.tools.python import tool as python

SQL = ("postgres", "duckdb", "snowflake", "ducklake")
HTTP_KEYS = frozenset({"status_code", "headers", "data"})  # and `url`, which alone would be a body
LIMITS = ("total", "read")  # of `spec.timeout`, what ends a call that is under way
ABOUT = ("http", "pg", "py", "meta")
SQL_KEYS = frozenset({"rows", "row_count", "columns"})


def outcome(kind: str, says: str, value: Any) -> Outcome:
    """`says` is result, error or outcome: what the mock gives."""
    match says:
        case "result":
            return _result(kind, value)
        case "error":
            return _error(kind, value)
    if value["status"] == "ok":
        made = replace(_result(kind, value.get("result")), status="ok", error=None)
    else:
        made = _error(kind, _with_codes(value))
        if "result" in value:
            shaped = _result(kind, value["result"])
            made = replace(made, result=shaped.result, shape=shaped.shape)
    about = {key: {**(getattr(made, key) or {}), **value[key]} for key in ABOUT if key in value}
    return replace(made, **about)


def in_time(kind: str, spec: Mapping[str, Any], made: Outcome, after: float) -> Took:
    """The outcome after so many seconds, or that the call's own time is over, as its tool says it."""
    given = spec.get("timeout")
    limits = {key: given.get(key) for key in LIMITS} if isinstance(given, Mapping) else {"total": given}
    known = [limit for key, limit in limits.items() if limit is not None and (key == "total" or kind == "http")]
    try:
        limit = min((seconds("timeout", each) for each in known), default=after)
    except BadCall as error:
        return Took(failed("config", str(error), **_blank(kind)))
    if after <= limit:
        return Took(made, after)
    return Took(failed("timeout", f"no result within {limit:g} s", retryable=True, **_blank(kind)), limit)


def _blank(kind: str) -> dict[str, Any]:
    """What an outcome of the kind always has, also when there is nothing to say."""
    match kind:
        case "http":
            return {"http": http.blank()}
        case "postgres":
            return {"pg": postgres.codes(None)}
        case "python":
            return {"py": python.blank()}
    return {}


def _with_codes(value: Mapping[str, Any]) -> dict[str, Any]:
    """The error with the status or the code that stands beside it."""
    given = value.get("error") or {}
    error = dict(given) if isinstance(given, Mapping) else {"message": given}
    codes = {"status": value.get("http", {}).get("status"), "code": value.get("pg", {}).get("code")}
    return {**{key: code for key, code in codes.items() if code is not None}, **error}


def _result(kind: str, value: Any) -> Outcome:
    if kind == "http":
        return _http(value)
    if kind in SQL:
        return replace(ok(_sql(value), shape="sql"), **_blank(kind))
    return replace(ok(value, shape=shape_of(value) if kind == "python" else "value"), **_blank(kind))


def _http(value: Any) -> Outcome:
    """The envelope, or the body alone; a status of 400 or more is an error, as it is of the tool."""
    whole = isinstance(value, Mapping) and value.keys() & HTTP_KEYS and value.keys() <= HTTP_KEYS | {"url"}
    result = {"status_code": 200, "headers": {}, "data": None, **(value if whole else {"data": value})}
    status = result["status_code"]
    about = {"status": status, "headers": result["headers"]}
    if isinstance(status, int) and status >= 400:
        return failed("http", f"{status}", retryable=_retryable(status), result=result, shape="http", http=about)
    return ok(result, shape="http", http=about)


def _retryable(status: Any) -> bool:
    return isinstance(status, int) and (status in http.RETRYABLE or status >= 500)


def _sql(value: Any) -> dict[str, Any]:
    """`{rows, row_count, columns}` with what is left out filled in; also a list of rows, one row, or nothing. Anything
    else cannot be what such a tool gives."""
    given: dict[str, Any] = {}
    if isinstance(value, Mapping) and (value.keys() & SQL_KEYS or any(key.startswith("command_") for key in value)):
        given, rows = dict(value), value.get("rows")
    else:
        rows = [dict(value)] if isinstance(value, Mapping) else value
    if rows is None:
        rows = []
    if not isinstance(rows, list | tuple):
        raise BadCall(f"the result of SQL is a list of rows, one row or nothing, not {type(rows).__name__}")
    rows = list(rows)
    columns = list(rows[0]) if rows and isinstance(rows[0], Mapping) else []
    return {"rows": rows, "row_count": len(rows), "columns": columns, **{**given, "rows": rows}}


def _error(kind: str, value: Any) -> Outcome:
    error = dict(value) if isinstance(value, Mapping) else {"message": value}
    fields: dict[str, Any] = {}
    named: str = kind
    retryable: bool = False
    if kind == "http":
        status = error.pop("status", None)
        named, retryable = ("connect", True) if status is None else ("http", _retryable(status))
        fields = {"http": {"status": status, "headers": {}}}
        if status is not None:
            fields |= {"shape": "http", "result": {"status_code": status, "headers": {}, "data": None}}
    elif kind == "postgres":
        code = error.pop("code", None)
        retryable = isinstance(code, str) and postgres.is_retryable(code)
        fields = {"pg": postgres.codes(code)}
    elif kind == "python":
        fields = {"py": {**python.blank(), "exception_type": error.pop("exception_type", None)}}
    named, retryable = error.pop("kind", named), bool(error.pop("retryable", retryable))
    message = str(error.pop("message", f"a mocked error of kind {named}"))
    return failed(named, message, retryable=retryable, details=error, **fields)

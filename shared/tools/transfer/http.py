"""An HTTP answer as the source of a transfer: one request, a list of rows in its JSON body."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from shared.tools.base.guard import BadCall
from shared.tools.http.tool import SPEC, HttpTool
from shared.tools.sql.rows import Batch, told
from shared.tools.transfer.ends import End, EndFailed

_ABSENT = object()


class HttpSource:
    def __init__(self, end: End, http: HttpTool) -> None:
        self._end = end
        self._http = http
        config = {key: value for key, value in end.config.items() if key in SPEC.keys}
        if not config.get("url"):
            raise BadCall("source.url is needed")
        self._call = replace(end.call, config=config, spec={key: value for key, value in end.call.spec.items()
                                                            if key == "timeout"})

    async def batches(self, size: int, wanted: Sequence[str] | None) -> AsyncGenerator[Batch, None]:
        """The body is held as a whole, within the limit of a result; the rows leave it in batches."""
        outcome = await self._http.run(self._call)
        if outcome.error is not None:
            error = {**outcome.error, "message": f"source: {outcome.error['message']}"}
            raise EndFailed(replace(outcome, error=error, result=None, shape="value"))
        rows = _rows(outcome.result["data"], self._end.config.get("path"))
        fields = list(wanted) if wanted is not None else _fields(rows)
        if wanted is not None:
            _check(rows, fields)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            yield Batch(fields, [[_field(row, name, None) for name in fields] for row in part])

    async def close(self) -> None:
        """The answer is read to its end."""


def _rows(data: Any, path: Any) -> list[Mapping[str, Any]]:
    if path is not None:
        data = _field({"": data}, f".{path}" if path else "", None)
    if not isinstance(data, list) or not all(isinstance(row, Mapping) for row in data):
        hint = f"; its keys are {told(map(str, data))}" if isinstance(data, Mapping) else ""
        raise BadCall(f"the answer is not a list of mappings{hint}: say with source.path where the rows are")
    return data


def _fields(rows: list[Mapping[str, Any]]) -> list[str]:
    """Every field any row has, in the order they come."""
    return list(dict.fromkeys(str(name) for row in rows for name in row))


def _check(rows: list[Mapping[str, Any]], fields: list[str]) -> None:
    """A row may lack a field; a field that no row has is a mistake."""
    for name in fields:
        if rows and all(_field(row, name, _ABSENT) is _ABSENT for row in rows):
            raise BadCall(f"mapping: no row has the field {name!r}; they have {told(_fields(rows))}")


def _field(row: Any, name: str, absent: Any) -> Any:
    """The field of that name, or, by dots, one inside it."""
    if isinstance(row, Mapping) and name in row:
        return row[name]
    first, dot, rest = name.partition(".")
    if not dot or not isinstance(row, Mapping) or first not in row:
        return absent
    return _field(row[first], rest, absent)

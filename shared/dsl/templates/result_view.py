"""What templates see of a step's or task's result: its payload, with the result's own keys beside it.

A name is looked up in this order: the keys of the result's envelope (http: `status_code`, `headers`,
`data`; sql: `rows`, `row_count`, `columns`; loop: `results`, `count`, `failed`), then the payload's keys,
then what is known beside it (selected parts; the name it was collected under; `url` of an http result; the keys
below `data` of an envelope that a program made; `_ref`, `_store`, `_size_bytes` of a stored result), then `data` and
`result`, which give the payload. Of `_payload`, as which lowering reads a formal `result`, the payload's keys come
before the envelope's. Everything else (`[0]`, `for`, `in`, `==`, arithmetic, filters) acts on the payload. As the
final value of an expression a view gives the result as stored.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from jinja2.utils import missing

from shared.dsl.model.wholes import WholeLoop, WholeTable
from shared.events.outcome import Ref, Result

PAYLOAD = "_payload"
MISSING: Any = missing  # what `find` answers for a name that is not there
_ENVELOPES = {"http": ("status_code", "headers", "data"), "sql": ("rows", "row_count", "columns")}
_EACH = ("command_", "commands")  # how a SQL result that has that of each statement names them, and their number
_PAYLOADS = {"http": "data", "sql": "rows"}


class View:
    """Immutable. `own` are the envelope's keys, `raw` is what the view stands for as a final value, `beside` is
    known of the result without being in it. Of a secret it is a handle: `secret` says what it stands for, which the
    keys of a call are rendered with and nothing else. `folds`: its keys are lower-case and found in any spelling, as
    the names of headers are (RFC 9110 §5.1)."""

    __slots__ = ("beside", "folds", "own", "payload", "raw", "secret")

    def __init__(
        self, own: dict[str, Any], payload: Any, raw: Any, beside: Mapping[str, Any] | None = None,
        secret: dict[str, str] | None = None, *, folds: bool = False,
    ) -> None:
        self.secret = secret
        self.folds = folds
        self.own = own
        self.payload = payload
        self.raw = raw
        self.beside = beside

    def find(self, name: Any) -> Any:
        """The value under a name, or MISSING."""
        if self.folds:
            return self.payload.get(folded(name), MISSING)
        found = self.own.get(name, MISSING)
        if found is MISSING and name == PAYLOAD:
            return self._unwrapped()
        if found is MISSING and type(self.payload) is dict and not (self.own and name == "result"):
            found = self.payload.get(name, MISSING)
        if found is MISSING and self.beside is not None:
            found = self.beside.get(name, MISSING)
        if found is not MISSING:
            return found
        if name == "result":
            return View(self.own, self.payload, self.payload, self.beside)
        return self.payload if name == "data" else MISSING

    def _unwrapped(self) -> "View":
        """The payload alone, whose keys come before the envelope's: `data` of a body that has such a key is that."""
        own, payload = self.own, self.payload
        if type(payload) is dict:
            own = {key: each for key, each in own.items() if key not in payload}
            own |= {"result": payload["result"]} if "result" in payload else {}
        return View(own, payload, payload, self.beside)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.payload)

    def __len__(self) -> int:
        return len(self.payload)

    def __bool__(self) -> bool:
        return bool(self.payload)

    def __contains__(self, item: Any) -> bool:
        return unwrap(item) in self.payload

    def __getitem__(self, key: Any) -> Any:
        return self.payload[unwrap(key)]

    def __eq__(self, other: object) -> bool:
        return bool(self.payload == unwrap(other))

    def __ne__(self, other: object) -> bool:
        return bool(self.payload != unwrap(other))

    def __lt__(self, other: Any) -> bool:
        return bool(self.payload < unwrap(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.payload <= unwrap(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.payload > unwrap(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.payload >= unwrap(other))

    def __hash__(self) -> int:
        return hash(self.payload)

    def __str__(self) -> str:
        return str(self.raw)

    def __repr__(self) -> str:
        return repr(self.raw)

    def __int__(self) -> int:
        return int(self.payload)

    def __float__(self) -> float:
        return float(self.payload)

    def __neg__(self) -> Any:
        return -self.payload

    def __pos__(self) -> Any:
        return +self.payload


def folded(name: Any) -> Any:
    return name.lower() if type(name) is str else name


def headers_view(headers: Any) -> Any:
    """The headers of an answer, whose names are told apart by their letters alone, not by their case."""
    return View({}, headers, headers, folds=True) if type(headers) is dict else headers


def for_programs(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """The names with loops and tables as they are handed to programs."""
    wholes = {name: View(each.own, each.payload, whole, each.beside) for name, each in names.items()
              if type(each) is View and (whole := _whole(each)) is not None}
    return {**names, **wholes} if wholes else names


def _whole(result: View) -> WholeLoop | WholeTable | None:
    """One that has the results of each of its statements is those."""
    own = result.own
    if type(results := own.get("results")) is list:
        return WholeLoop(results, own.get("count", len(results)), own.get("failed", 0))
    is_table = type(own.get("rows")) is list and "columns" in own and type(result.raw) is dict
    return WholeTable(result.raw) if is_table and "commands" not in result.raw else None


def unwrap(value: Any) -> Any:
    """The payload of a view; any other value as it is."""
    return value.payload if type(value) is View else value


def view(result: Result) -> View:
    """A loop's value is stored as `{results, count, failed}`; its payload is the list."""
    value = result.value
    beside = {**(pointer(result.ref) if result.ref is not None else {}), **result.fields} or None
    if result.into and (value is not None or result.ref is None):
        beside = {**(beside or {}), result.into: value}
    if value is None and result.ref is not None:
        value = {"ref": msgspec.to_builtins(result.ref)}  # not loaded: templates can pass the reference on
        return View({}, value, value, beside)
    if result.shape == "loop" and isinstance(value, dict):
        items = value.get("results")
        return View({**value, "data": items}, items, items, beside)
    if result.shape in _ENVELOPES and isinstance(value, dict):
        payload = value.get(_PAYLOADS[result.shape])
        own = {key: each for key, each in value.items() if key in _ENVELOPES[result.shape] or key[:8] in _EACH}
        if "headers" in own:
            own["headers"] = headers_view(own["headers"])
        if result.shape == "http" and "url" in value:
            beside = {"url": value["url"], **(beside or {})}  # the body's own `url` comes first
        if "commands" in value:
            return _of_commands({**own, "data": payload}, payload, value, beside)
        return View({**own, "data": payload}, payload, value, beside)
    if result.shape == "envelope" and isinstance(value, dict):  # of a program: the keys of its `data` are there too
        below: dict[str, Any] = value["data"]
        return View({}, value, value, {**below, **beside} if beside else below)
    if result.shape == "secret" and isinstance(value, dict):
        return View({}, value, value, beside, {str(key): str(each) for key, each in value.items()})
    return View({}, value, value, beside)


def _of_commands(own: dict[str, Any], payload: Any, value: Any, beside: Mapping[str, Any] | None) -> View:
    """Of a task that gives the result of each of its statements, whoever reads `data` or `result` may mean those of the
    last one, or go on to `command_0`: both are there. As a final value `result` is all of them, whichever dialect
    reads it."""
    inner = View(own, payload, payload)
    whole = View({**own, "data": inner}, payload, value, beside)
    return View({**whole.own, "result": whole, PAYLOAD: whole}, payload, value, beside)


def pointer(ref: Ref) -> dict[str, Any]:
    """A stored result says where it is; `_ref` can be handed on."""
    return {"_ref": msgspec.to_builtins(ref), "_store": ref.store, "_size_bytes": ref.size}

"""Values too large for the log (V10 §10): which leave a record, under what name, and how they come back.

Pure: `shrink` says what to store, `resolve` asks for what is missing by raising `Missing`; the shell
does both over the results stream. Names are content hashes, so storing twice is harmless.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from shared.engine.values.ctx_patch import AS_RESULT, MAX_CTX_BYTES, STORED, is_stored, largest
from shared.errors import Signal
from shared.events import bounds
from shared.events.fields import Growth, Patch
from shared.events.model import (
    Event,
    FrameClaimed,
    IterationDone,
    LoopDone,
    LoopStarted,
    PlaybookRestored,
    Restart,
    Scope,
    StepDone,
    StepScheduled,
    Taken,
    TaskDone,
    TaskRetried,
)
from shared.events.outcome import Outcome, Ref, Result

STORE = "nats"
MAX_INLINE_BYTES = 131_072       # default of limits.max_payload_bytes
MAX_RECORD_BYTES = bounds.MAX_RECORD_BYTES
MAX_RESULT_BYTES = MAX_RECORD_BYTES // 3  # in a record, whatever max_payload_bytes says: patches need room too
MAX_RESTORED_BYTES = 512         # of each result that is taken over, when all are too large for the record
MAX_VALUE_BYTES = bounds.MAX_STORED_BYTES
MAX_WORKLOAD_BYTES = 262_144
MAX_BYTES_PER_CHARACTER = 6      # in JSON: \u0000

Values = Mapping[str, Any]
Blobs = dict[str, bytes]
_encode = msgspec.json.encode


class Missing(Signal):
    """A decision needs the stored value."""

    def __init__(self, ref: Ref) -> None:
        super().__init__(ref.key)
        self.ref = ref


class Unstorable(Signal):
    """A value over MAX_VALUE_BYTES."""


def unwritable(events: Iterable[Event]) -> str:
    """What is said of events that do not fit into a record: the largest value that they write. The size of the record
    itself is not the same for whoever plays it again."""
    found = list[tuple[int, str, str]]()
    for event in events:
        if isinstance(event, TaskDone | TaskRetried):
            patches = [("ctx", [event.set_ctx]), ("iter", [event.set_iter])]
        else:
            patches = [("ctx", list(getattr(event, "ctx", ())))]
        for where, written in patches:
            key, size = largest(written)
            found.append((size, where, key))
    size, where, key = max(found, default=(0, "", ""))
    if not key:
        return f"a record of more than {MAX_RECORD_BYTES} bytes cannot be written: keep less in iter and ctx"
    limit = f"the {MAX_CTX_BYTES} that ctx may have" if where == "ctx" else f"the {MAX_RECORD_BYTES} of a record"
    return f"{where}.{key} of {size} bytes is over {limit}: {AS_RESULT}"


def refer(execution_id: str, data: bytes, hint: str, blobs: Blobs) -> Ref:
    if len(data) > MAX_VALUE_BYTES:
        raise Unstorable(f"a {hint} of {len(data)} bytes is over the limit of {MAX_VALUE_BYTES}")
    checksum = hashlib.sha256(data).hexdigest()
    blobs[checksum] = data
    return Ref(STORE, f"{execution_id}/{checksum}", checksum, len(data), hint)


def shrink_result(execution_id: str, result: Result, limit: int, blobs: Blobs) -> Result:
    if result.value is None or result.ref is not None or _is_small(result.value, limit):
        return result
    data = _encode(result.value)
    if len(data) <= limit:
        return result
    ref = refer(execution_id, data, result.shape, blobs)
    return Result(None, result.shape, ref, result.fields, result.into)


def shrink_outcome(execution_id: str, outcome: Outcome, limit: int, blobs: Blobs) -> Outcome:
    if outcome.result is None or outcome.ref is not None:
        return outcome
    small = shrink_result(execution_id, Result(outcome.result, outcome.shape), limit, blobs)
    if small.ref is None:
        return outcome
    return msgspec.structs.replace(outcome, result=None, ref=small.ref)


def shrink(execution_id: str, events: Iterable[Event], limit: int = MAX_INLINE_BYTES) -> tuple[list[Event], Blobs]:
    """The events as they go into the log, and what has to be stored before them."""
    blobs: Blobs = {}
    limit = MAX_RESULT_BYTES if limit > MAX_RESULT_BYTES else limit
    found: list[Event] = []
    for event in events:
        shrunk = _SHRINK.get(type(event))
        found.append(event if shrunk is None else shrunk(execution_id, event, limit, blobs))
    return found, blobs


def _shrink_done(execution_id: str, event: StepDone | IterationDone | LoopDone, limit: int, blobs: Blobs) -> Event:
    if event.result.value is None:
        return event
    small = shrink_result(execution_id, event.result, limit, blobs)
    return event if small is event.result else msgspec.structs.replace(event, result=small)


def _shrink_scheduled(execution_id: str, event: StepScheduled, limit: int, blobs: Blobs) -> Event:
    if _is_tiny(event.scope) or len(data := _encode(event.scope)) <= limit:
        return event
    ref = refer(execution_id, data, "scope", blobs)
    return msgspec.structs.replace(event, scope=Scope(), scope_ref=ref)


def _shrink_claimed(execution_id: str, event: FrameClaimed, limit: int, blobs: Blobs) -> Event:
    if not event.rows or len(data := _encode(event.rows)) <= limit:
        return event
    return msgspec.structs.replace(event, rows=[], rows_ref=refer(execution_id, data, "rows", blobs))


def _shrink_loop(execution_id: str, event: LoopStarted, limit: int, blobs: Blobs) -> Event:
    if not event.items or len(data := _encode(event.items)) <= limit:
        return event
    return msgspec.structs.replace(event, items=[], items_ref=refer(execution_id, data, "items", blobs))


def _shrink_task(execution_id: str, event: TaskDone | TaskRetried, limit: int, blobs: Blobs) -> Event:
    if event.outcome.result is not None:
        less = shrink_outcome(execution_id, event.outcome, limit, blobs)
        if less is not event.outcome:
            event = msgspec.structs.replace(event, outcome=less)
    if event.grow:
        added = tuple(_shrink_growth(execution_id, each, limit, blobs) for each in event.grow)
        event = msgspec.structs.replace(event, grow=added)
    if isinstance(event, TaskDone) and event.collected:
        patch = _shrink_patch(execution_id, event.set_ctx, event.collected, limit, blobs)
        event = msgspec.structs.replace(event, set_ctx=patch)
    return event


def _shrink_growth(execution_id: str, added: Growth, limit: int, blobs: Blobs) -> Growth:
    if added.value is None or _is_small(added.value, limit) or len(data := _encode(added.value)) <= limit:
        return added
    return msgspec.structs.replace(added, value=None, ref=refer(execution_id, data, "part", blobs))


def _shrink_patch(execution_id: str, patch: Patch, keys: tuple[str, ...], limit: int, blobs: Blobs) -> Patch:
    """What was collected leaves the patch when it is large."""
    found = patch
    for key in keys:
        if key in patch and not is_stored(patch[key]) and len(data := _encode(patch[key])) > limit:
            found = {**found, key: {STORED: msgspec.to_builtins(refer(execution_id, data, "value", blobs))}}
    return found


def _shrink_restored(execution_id: str, event: PlaybookRestored, limit: int, blobs: Blobs) -> PlaybookRestored:
    if any(token.loop is not None for token in event.tokens):
        tokens = tuple(_shrink_token(execution_id, token, blobs) for token in event.tokens)
        event = msgspec.structs.replace(event, tokens=tokens)
    if not event.results or len(_encode(event.results)) <= limit:
        return event
    kept = {
        name: shrink_result(execution_id, each, MAX_RESTORED_BYTES, blobs) for name, each in event.results.items()
    }
    return msgspec.structs.replace(event, results=kept)


def _shrink_token(execution_id: str, token: Restart, blobs: Blobs) -> Restart:
    loop = token.loop
    if loop is None:
        return token
    for name in ("items", "todo", "results"):
        loop = _shrink_list(execution_id, loop, name, blobs)
    return msgspec.structs.replace(token, loop=loop)


def _shrink_list(execution_id: str, loop: Taken, name: str, blobs: Blobs) -> Taken:
    if len(data := _encode(getattr(loop, name))) <= MAX_RESTORED_BYTES:
        return loop
    return msgspec.structs.replace(loop, **{name: [], f"{name}_ref": refer(execution_id, data, name, blobs)})


_SHRINK: dict[type[Event], Callable[[str, Any, int, Blobs], Event]] = {
    StepDone: _shrink_done, IterationDone: _shrink_done, LoopDone: _shrink_done,
    TaskDone: _shrink_task, TaskRetried: _shrink_task,
    StepScheduled: _shrink_scheduled, PlaybookRestored: _shrink_restored,
    FrameClaimed: _shrink_claimed, LoopStarted: _shrink_loop,
}


SHRINKABLE = frozenset(_SHRINK)  # of other events, nothing can be stored beside the log


def _is_tiny(scope: Scope) -> bool:
    return not scope.workload and not scope.ctx and not scope.steps and not scope.caller


def _is_small(value: Any, limit: int) -> bool:
    """Surely within the limit, without encoding it. A number is always smaller than a reference to it."""
    if isinstance(value, str):
        return len(value) * MAX_BYTES_PER_CHARACTER + 2 <= limit
    return isinstance(value, bool | int | float)


def resolve(result: Result, values: Values) -> Result:
    """The result with its value beside its reference; raises Missing when it is not among `values`."""
    value = result.value if result.ref is None else value_of(result.ref, values)
    if result.shape == "loop":
        items = [item(each, values) for each in value["results"]]
        return Result({**value, "results": items}, "loop", fields=result.fields)
    return result if result.ref is None else msgspec.structs.replace(result, value=value)


def manifest_item(result: Result) -> Any:
    """An iteration's place in a loop's results: its value, or a pointer to it. A value that looks like a pointer is
    marked as one: only what the engine has stored is fetched."""
    if result.ref is not None:
        return {"$ref": msgspec.to_builtins(result.ref)}
    if result.shape == "loop":
        return manifest_list(result.value["results"])
    return {"$value": result.value} if _is_pointer(result.value) else result.value


def manifest_list(items: list[Any]) -> Any:
    """A list of results within results, marked when it holds pointers."""
    return {"$loop": items} if any(_is_pointer(item) for item in items) else items


def _is_pointer(item: Any) -> bool:
    if not isinstance(item, dict) or len(item) != 1:
        return False
    return "$ref" in item or "$value" in item or isinstance(item.get("$loop"), list)


def item(found: Any, values: Values) -> Any:
    """An item of a loop's results, with the value it refers to."""
    if not _is_pointer(found):
        return found
    if "$value" in found:
        return found["$value"]
    if "$loop" in found:
        return [item(each, values) for each in found["$loop"]]
    try:
        ref = msgspec.convert(found["$ref"], Ref)
    except msgspec.ValidationError:
        return found  # a value that only looks like one
    value = value_of(ref, values)
    return [item(each, values) for each in value["results"]] if ref.schema_hint == "loop" else value


def value_of(ref: Ref, values: Values) -> Any:
    try:
        return values[ref.checksum]
    except KeyError:
        raise Missing(ref) from None


def resolve_scope(scope: Scope, ref: Ref | None, values: Values) -> Scope:
    scope = loaded_scope(scope, ref, values)
    ctx = resolve_ctx(scope.ctx, values)
    if ctx is scope.ctx and all(found.ref is None and found.shape != "loop" for found in scope.steps.values()):
        return scope
    steps = {name: resolve(found, values) for name, found in scope.steps.items()}
    return Scope(scope.workload, ctx, steps, scope.caller)


def loaded_scope(scope: Scope, ref: Ref | None, values: Values) -> Scope:
    """The scope, with what it refers to left where it is."""
    return scope if ref is None else msgspec.convert(value_of(ref, values), Scope)


def resolve_ctx(ctx: dict[str, Any], values: Values) -> dict[str, Any]:
    """ctx with the values that it refers to. What only looks like a reference stays as it is."""
    found = ctx
    for key, value in ctx.items():
        if (ref := stored_ref(value)) is not None:
            found = {**found, key: value_of(ref, values)}
    return found


def owner_of(scope: Scope, ref: Ref) -> str:
    """Whose value it is, as far as the scope tells."""
    for name, result in scope.steps.items():
        if result.ref == ref:
            return f"the result of step {name}"
    key = next((key for key, value in scope.ctx.items() if stored_ref(value) == ref), None)
    return f"ctx.{key}" if key is not None else f"a stored {ref.schema_hint or 'value'}"


def stored_ref(value: Any) -> Ref | None:
    """What a value of ctx refers to, if it does."""
    if not is_stored(value):
        return None
    try:
        return msgspec.convert(value[STORED], Ref)
    except msgspec.ValidationError:
        return None

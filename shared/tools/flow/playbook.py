"""`kind: playbook`: another playbook as a child execution; its result is the task's (FS §4.2). The worker's slot
is free while the child runs."""

from typing import Any

import msgspec

from shared.engine.values.stored_values import MAX_WORKLOAD_BYTES
from shared.events.bounds import MAX_NESTING, MAX_PATH, MAX_STEP_NAME, MAX_VERSION, is_deep
from shared.events.model import Child
from shared.tools.base.contract import Call, KeySpec, ToolSpec, Waits
from shared.tools.base.guard import BadCall, mapping, own_limit
from shared.tools.flow.answering import waiting

MODES = ("sync", "detached")

SPEC = ToolSpec(
    kind="playbook",
    doc="Runs another playbook and waits for it without a worker. Its result is the child's.",
    keys={
        "path": KeySpec("The registered path of the playbook.", required=True, most=MAX_PATH),
        "version": KeySpec("Its registered version; the latest unless given.", most=MAX_VERSION),
        "args": KeySpec("The child's payload, over its workload."),
        "payload": KeySpec("The same as `args`."),
        "return_step": KeySpec("The step whose result is wanted; the last one's unless given.", most=MAX_STEP_NAME),
        "mode": KeySpec("`sync` (default) waits for the child; `detached` goes on at once with its execution_id."),
    },
    waits=True,
)


@waiting
def answer(call: Call) -> Waits:
    """The scheduler asks for the child."""
    return Waits(_child(call), timeout_s=own_limit(call))


def _child(call: Call) -> Child:
    config = call.config
    mode = config.get("mode") or "sync"
    if mode not in MODES:
        raise BadCall(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    payload = {**mapping(config, "args"), **mapping(config, "payload")}
    size = len(msgspec.json.encode(payload))
    if size > MAX_WORKLOAD_BYTES:
        raise BadCall(f"a payload of {size} bytes is over {MAX_WORKLOAD_BYTES}: pass a reference")
    if is_deep(msgspec.json.encode(payload)):
        raise BadCall(f"a payload of which parts stand within each other more than {MAX_NESTING} times")
    return Child(
        "", _text(config, "path", MAX_PATH), _text(config, "version", MAX_VERSION), payload,
        _text(config, "return_step", MAX_STEP_NAME),
        detached=mode == "detached",
    )


def _text(config: Any, name: str, most: int) -> str:
    value = config.get(name)
    if value is None:
        return ""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise BadCall(f"{name} must be text, not {type(value).__name__}")
    text = str(value)
    if len(text) > most or not text.isprintable():
        raise BadCall(f"{name} must be a line of at most {most} characters, not one of {len(text)}")
    return text

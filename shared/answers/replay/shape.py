"""What a replay found, as data of a documented shape and in words."""

from typing import Any

import msgspec

from shared.answers.rehearsal.conditions import short
from shared.answers.rehearsal.types import Need
from shared.answers.replay.compare import NOTHING, Divergence
from shared.answers.replay.replay import Replayed
from shared.events.run_index import is_iteration


def shape(found: Replayed) -> dict[str, Any]:
    return {
        "execution_id": found.execution_id,
        "path": found.path,
        "verdict": found.verdict,
        "recorded": found.recorded,
        "replayed": found.status,
        "divergence": None if found.divergence is None else divergence_shape(found.divergence),
        "needs": [need_shape(need) for need in found.needs],
        "notes": found.notes,
    }


def divergence_shape(found: Divergence) -> dict[str, Any]:
    return {
        "what": found.what, "step": found.step, "run_id": found.run_id, "index": found.index, "task": found.task,
        "seq": found.seq, "line": found.line, "log": _plain(found.log), "new": _plain(found.new),
        "because": _plain(found.because), "message": sentence(found),
    }


def need_shape(need: Need) -> dict[str, Any]:
    return {
        "step": need.step, "run_id": need.run_id, "index": need.index, "task": need.task, "kind": need.kind,
        "attempt": need.attempt, "element": need.element, "config": _plain(need.config), "auth": _plain(need.auth),
    }


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)


def sentence(found: Divergence) -> str:
    at = f"step {found.step}" if found.step else "the execution"
    if is_iteration(found.index):
        at += f", iteration {found.index}"
    if found.task:
        at += f", task {found.task}"
    return f"{at}: the log has {_told(found, found.log)}; now it is {_told(found, found.new)}"


def _told(found: Divergence, value: Any) -> str:
    if isinstance(value, str) and value == NOTHING:
        return NOTHING
    match found.what:
        case "arcs":
            return f"{value['event']} to {', '.join(value['arcs']) or 'no step'}"
        case "task":
            names = [name for name in ("set_iter", "grow", "set_ctx") if value[name]]
            patches = "".join(f", {name} {_text(value[name])}" for name in names)
            return f"{value['do']} {value['to']}".rstrip() + patches
        case "loop":
            return f"{value['count']} elements {_text(value['elements'])}"
        case "end":
            return f"{value['status']} with {_text(value['error'] or value['result'])}"
        case "path" | "join":
            return str(value)
    return f"{found.what} {_text(value)}"


def _text(value: Any) -> str:
    shown = short(_plain(value))
    return shown if isinstance(shown, str) else msgspec.json.encode(shown).decode()

"""The mock that a call is missing, ready to paste, and the call itself as people read it."""

from typing import Any

import yaml

from shared.answers.rehearsal.types import Need
from shared.events.run_index import is_iteration
from shared.tools.testing.mock_outcome import SQL
from shared.tools.testing.mocks import plain

MAX_CALL_CHARS = 2000


def mock_for(need: Need, *, main: bool) -> str:
    """As an item of `mocks`."""
    mock: dict[str, Any] = {} if main else {"playbook": need.path}
    mock |= {"step": need.step, "task": need.task}
    if need.attempt > 1:
        mock["attempt"] = need.attempt
    mock["result"] = _example(need.kind)
    text: str = yaml.safe_dump([mock], sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    return text.rstrip("\n")


def _example(kind: str) -> Any:
    if kind == "http":
        return {"status_code": 200, "data": {}}
    return {"rows": []} if kind in SQL else {}


def call_of(need: Need) -> dict[str, Any]:
    """What the tool would have been called with; long texts are cut."""
    place = {"iteration": need.index} if is_iteration(need.index) else {}
    return {**place, **{key: _cut(value) for key, value in plain(need.config).items()}}


def _cut(value: Any) -> Any:
    return value[:MAX_CALL_CHARS] + "…" if isinstance(value, str) and len(value) > MAX_CALL_CHARS else value

"""Calls of tools for tests, with what a test does not care about filled in."""

from typing import Any

from shared.engine.values.redaction import Secrets
from shared.events.outcome import Outcome
from shared.tools.base.contract import Call


def call(
    config: dict[str, Any], *, spec: dict[str, Any] | None = None, auth: dict[str, Any] | None = None,
    timeout_s: float = 20.0, key: str = "run/task/1",
) -> Call:
    return Call(config=config, spec=spec or {}, auth=auth, idempotency_key=key, timeout_s=timeout_s)


def recorded(outcome: Outcome, given: Call) -> Outcome:
    """The outcome of a call as a worker lets it into the log."""
    return Secrets(given.auth, given.secrets, given.credentials).outcome(outcome)

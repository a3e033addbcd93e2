"""Calls of tools for tests, with what a test does not care about filled in."""

from typing import Any

from shared.tools.base.contract import Call


def call(
    config: dict[str, Any], *, spec: dict[str, Any] | None = None, auth: dict[str, Any] | None = None,
    timeout_s: float = 20.0, key: str = "run/task/1",
) -> Call:
    return Call(config=config, spec=spec or {}, auth=auth, idempotency_key=key, timeout_s=timeout_s)

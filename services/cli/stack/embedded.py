"""The services of an embedded stack, as the runtime wants them handed in."""

import importlib
from collections.abc import Callable

from shared.runtime.embedded.unit import Service
from shared.runtime.service.main import Serve


def _load(name: str) -> Callable[[], Serve]:
    def load() -> Serve:
        serve: Serve = importlib.import_module(f"services.{name}.service").serve
        return serve

    return load


def _service(
    name: str, *, per_pool: bool = False, needs_postgres: bool = False, runs_workers: bool = False
) -> Service:
    return Service(name, f"services.{name}", _load(name), per_pool, needs_postgres, runs_workers)


SERVICES = (
    _service("router"),
    _service("scheduler"),
    _service("worker", per_pool=True),
    _service("pools", runs_workers=True),
    _service("projector", needs_postgres=True),
)

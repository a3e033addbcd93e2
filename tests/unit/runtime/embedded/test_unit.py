"""A service of a stack as a child process."""

import socket
from pathlib import Path

from shared.runtime.embedded.nats_server import HOST, free_port
from shared.runtime.embedded.unit import Service, Unit
from shared.runtime.service.main import Serve
from shared.runtime.service.settings import Settings


def _never() -> Serve:
    raise AssertionError("a child loads its own service")


async def test_a_port_that_someone_else_took_is_left_to_them(tmp_path: Path) -> None:
    """The service could not start otherwise, however often it is tried."""
    moves: list[int] = []
    port = free_port()
    unit = Unit(Service("x", "this", _never), "x", Settings(health_port=port), lambda: moves.append(1))
    assert await unit.as_process(tmp_path) == 0
    assert (unit.settings.health_port, moves) == (port, [])
    with socket.socket() as taken:
        taken.bind((HOST, port))
        taken.listen()
        assert await unit.as_process(tmp_path) == 0
    assert unit.settings.health_port != port
    assert moves == [1]

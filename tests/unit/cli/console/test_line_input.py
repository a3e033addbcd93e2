"""Lines of a terminal and of a pipe."""

import asyncio
import io
import os
import pty
import sys

import pytest

from services.cli.console.line_input import Typed


async def test_a_terminal_is_read_while_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    try:
        with os.fdopen(slave, encoding="utf-8") as terminal:
            monkeypatch.setattr(sys, "stdin", terminal)
            typed = Typed()
            waiting = asyncio.create_task(typed.line())
            await asyncio.sleep(0)
            assert not waiting.done(), "and nobody is held up"
            os.write(master, "g #2\ne ü\n\x04".encode())
            async with asyncio.timeout(30):
                assert [await waiting, await typed.line(), await typed.line()] == ["g #2", "e ü", None]
    finally:
        os.close(master)


async def test_a_pipe_ends_with_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\nq"))
    typed = Typed()
    assert [await typed.line(), await typed.line(), await typed.line()] == ["n\n", "q", None]

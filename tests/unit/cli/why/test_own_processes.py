"""A service that is not heard of, whose process `up` has started: it is named, and ended to be started again."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.cli.why import own_processes
from shared.answers.why.facts import Answer, Reason
from shared.answers.why.remedies import remedy, start

GONE = Answer("x1", "running", (Reason("router.gone", "blocked", "no router is running", remedy=start("router")),))


@pytest.fixture
def router() -> Iterator[int]:
    """A child whose command line is that of a router."""
    process = subprocess.Popen([sys.executable, "-c", "input()", "services.router"], stdin=subprocess.PIPE)
    try:
        yield process.pid
    finally:
        process.communicate(b"\n", timeout=30)


def test_a_process_that_is_there_and_silent_is_named(router: int, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(f"{os.getpid()}\n")
    (reason,) = own_processes.explained(GONE, tmp_path).reasons
    assert f"its process {router} is there" in reason.text
    assert (reason.remedy, reason.values["pid"]) == (remedy("end_process", pid=router), router)


@pytest.mark.parametrize("lock", [None, "", "4194305\n", "nonsense"])
def test_where_there_is_none_nothing_is_said(lock: str | None, tmp_path: Path) -> None:
    if lock is not None:
        (tmp_path / "lock").write_text(lock)
    assert own_processes.explained(GONE, tmp_path) == GONE
    assert own_processes.explained(GONE, None) == GONE

"""noetlctl as people call it: a process, its exit code, stdout and stderr."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from services.cli import main
from services.cli.stack import context
from shared.runtime.embedded import postgres
from tests.support.paths import ROOT
from tests.support.proved import assert_all_right
from tests.support.waiting import wait_until

COMMAND = [sys.executable, "-m", "services.cli"]
LIMIT_S = 90.0

Result = subprocess.CompletedProcess[str]
Cli = Callable[..., Result]


def environment(**extra: str) -> dict[str, str]:
    """Ours, without NOETL_* and the contexts of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    return {**kept, "PYTHONPATH": str(ROOT), "NOETL_CONFIG": "/nonexistent/config.json", **extra}


def run(*args: str, stdin: str = "", cwd: Path, **extra: str) -> Result:
    return subprocess.run(
        [*COMMAND, *args],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(**extra),
        timeout=LIMIT_S,
        check=False,
    )


def inside(*args: str, cwd: Path) -> Result:
    """In this process, for tests that call it often: to start Python takes most of the time of a call."""
    out, err = StringIO(), StringIO()
    with patch.dict(os.environ, environment(), clear=True), chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        code = main.exit_code(list(args))
    return Result(args, code, out.getvalue(), err.getvalue())


def noetlctl(*args: str) -> int:
    """Its exit code; what it prints is the test's to catch."""
    with pytest.raises(SystemExit) as ended:
        main.main(list(args))
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    def call(*args: str, stdin: str = "", cwd: Path = tmp_path, **extra: str) -> Result:
        return run(*args, stdin=stdin, cwd=cwd, **extra)

    return call


@pytest.fixture
def inner() -> Cli:
    return inside


class Up:
    """A running `noetlctl up` and what its context file says."""

    def __init__(self, folder: Path, **extra: str) -> None:
        self.folder = folder
        self.log = folder / "up.txt"
        self._out = self.log.open("wb")
        self.process = subprocess.Popen(
            [*COMMAND, "up", "--folder", str(folder / ".noetl"), "--port", "0"],
            cwd=folder,
            env=environment(**extra),
            stdout=self._out,
            stderr=self._out,
            start_new_session=True,
        )
        self.context_file = folder / ".noetl" / "context.json"

    @property
    def context(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.context_file.read_text())
        return found

    def servers(self) -> list[int]:
        """PostgreSQL is nobody's child: it says in a file which process it is."""
        pid = postgres.pid_of(self.context_file.parent / "postgres")
        return [] if pid is None else [pid]

    def wait(self) -> None:
        wait_until(self._is_up, "it is up", LIMIT_S, instead=self.log.read_text)

    def _is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return self.context_file.exists()

    def verify(self) -> None:
        """As `noetlctl verify --all` would; a module that breaks the log on purpose cannot use this fixture."""
        asyncio.run(self._verify())

    async def _verify(self) -> None:
        settings = context.find(self.context_file, {})
        async with context.connected(settings) as bus:
            await assert_all_right(bus, settings.partitions, settings.postgres_dsn)

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(60)
        finally:
            self._out.close()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Whatever ran on it is verified before it goes down."""
    stack = Up(tmp_path_factory.mktemp("up"))
    try:
        stack.wait()
        yield stack
        stack.verify()
    finally:
        stack.stop()

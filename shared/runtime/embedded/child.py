"""A child process with its log file, stopped politely and then for certain."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog

from shared.runtime.service import secrets as service_secrets

KILL_AFTER_S = 5.0  # what a child gets beyond its own drain time

log = structlog.get_logger()
_pids = set[int]()
_starting: list[str] = []  # an id is not known as soon as there is a process


def own() -> set[int] | None:
    """The processes of all children. None: not known at this moment."""
    return None if _starting else _pids


@contextmanager
def _beginning(name: str) -> Iterator[None]:
    _starting.append(name)
    try:
        yield
    finally:
        _starting.remove(name)


class Child:
    """One process after another under one name: `life` starts it and waits for its end. `secrets` are handed over."""

    def __init__(
        self, name: str, argv: Sequence[str], env: Mapping[str, str], secrets: Mapping[str, str], log_file: Path
    ) -> None:
        self.name = name
        self.pid: int | None = None
        self._argv, self._env, self._secrets, self._log_file = argv, env, secrets, log_file

    async def life(self) -> int:
        """The exit code. A session of its own, so that Ctrl-C reaches only the one who stops in order."""
        with (
            _beginning(self.name), self._log_file.open("ab") as out,
            service_secrets.handing(self._secrets) as descriptor,
        ):
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                env={**service_secrets.without(os.environ), **self._env, service_secrets.DESCRIPTOR: str(descriptor)},
                pass_fds=(descriptor,),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )
        self.pid = process.pid
        _pids.add(process.pid)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await _end(process, 0.0)
            raise
        finally:
            self.pid = None
            _pids.discard(process.pid)

    def terminate(self) -> None:
        if self.pid is not None:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        if self.pid is not None:
            log.error("child.killed", child=self.name)
            os.kill(self.pid, signal.SIGKILL)


async def _end(process: asyncio.subprocess.Process, grace_s: float) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), grace_s or KILL_AFTER_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def end_with_parent() -> None:
    """Asks the kernel for SIGTERM when the parent is gone: a killed `up` leaves nobody behind."""
    import ctypes

    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)

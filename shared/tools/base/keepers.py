"""The processes that this one started to keep those of authors. Whoever else becomes its child is a stray."""

import subprocess
from collections.abc import Sequence
from typing import Any

from shared.tools.base.warden import SETTLE_S

END_S = 2 * SETTLE_S  # for one that was told to end
pids = set[int]()


def start(command: Sequence[str], **given: Any) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **given)
    pids.add(process.pid)
    return process


def wait(process: "subprocess.Popen[bytes]") -> int:
    """For one that was told to end: its exit code, or minus the signal. One that does not end is killed."""
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        pids.discard(process.pid)

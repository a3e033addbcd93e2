"""Whether a process is there, and what it listens to, by its id."""

import os
import time
from pathlib import Path

WITHIN_S = 20.0
LISTEN = "0A"  # the state of a socket in /proc


def running(pid: int) -> bool:
    """Not ended, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(parent: int) -> dict[int, str]:
    """Pids of the direct children with their command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[1]) == parent:
            found[int(folder.name)] = line
    return found


def listening(pid: int) -> set[int]:
    """The TCP ports that a process listens on."""
    sockets = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and f"socket:[{fields[9]}]" in sockets:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def gone(pid: int, within_s: float = WITHIN_S) -> bool:
    end = time.monotonic() + within_s
    while running(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def written(file: Path, within_s: float = WITHIN_S) -> str:
    """What is in a file, as soon as there is something."""
    end = time.monotonic() + within_s
    while not file.exists() or not file.read_text():
        assert time.monotonic() < end, f"nothing in {file}"
        time.sleep(0.02)
    return file.read_text()

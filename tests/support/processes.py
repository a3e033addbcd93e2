"""Whether a process is there, by its id."""

import time
from pathlib import Path

WITHIN_S = 20.0


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

"""What stays with its owner: files, and the environment."""

import os
import re
from pathlib import Path

_NEEDED = re.compile(r"PATH|TZ|LANG|LC_\w+|LD_LIBRARY_PATH|TMPDIR|GO\w+")


def plain_environment() -> dict[str, str]:
    """For servers that we start: what a program needs to run, and no setting of ours or of whoever started us."""
    return {name: value for name, value in os.environ.items() if _NEEDED.fullmatch(name)}


def write_private(path: Path, data: bytes) -> None:
    """Readable by the owner alone, and never half written."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    fresh.replace(path)

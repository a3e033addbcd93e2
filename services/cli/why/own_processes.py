"""A service of an embedded stack that is not heard of, though its process is there: it is frozen, and `noetlctl up`
starts another one as soon as it has ended."""

from pathlib import Path

from msgspec.structs import replace

from shared.answers.why.facts import Answer, Reason
from shared.answers.why.remedies import remedy

PROC = Path("/proc")


def explained(answer: Answer, folder: Path | None) -> Answer:
    """`folder` is that of an embedded stack on this machine."""
    if folder is None:
        return answer
    return replace(answer, reasons=tuple(_explained(reason, folder) for reason in answer.reasons))


def _explained(reason: Reason, folder: Path) -> Reason:
    helps = reason.remedy
    if helps is None or helps.code != "start_service":
        return reason
    pid = process_of(folder, str(helps.values["service"]))
    if pid is None:
        return reason
    text = f"{reason.text}: its process {pid} is there and says nothing"
    return replace(reason, text=text, values={**reason.values, "pid": pid}, remedy=remedy("end_process", pid=pid))


def process_of(folder: Path, service: str) -> int | None:
    """Of those that the owner of the folder's lock has started."""
    try:
        owner = int((folder / "lock").read_text())
        folders = [each for each in PROC.iterdir() if each.name.isdecimal()]
    except (OSError, ValueError):
        return None
    for each in folders:
        try:
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            named = f"services.{service}".encode() in (each / "cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile
        if parent == owner and named:
            return int(each.name)
    return None

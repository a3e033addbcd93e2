"""What nobody could read: how many dead letters there are, and of the latest ones where each is and why."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from services.cli.doctor.finding import Finding, ok, warning
from services.cli.doctor.target import Patient
from shared.bus import api, dead_letters, topology
from shared.bus.codes import NotFound
from shared.bus.dead_letters import Letter
from shared.events import subjects
from shared.events.letter import short

NAME = "lag.dead_letters"
MAX_TOLD = 100
MAX_LEFT_OUT = 10
MAX_REASON = 160


async def look(patient: Patient) -> list[Finding]:
    try:
        info = await patient.bus.requests.api(api.stream_info(topology.DEAD), {"subjects_filter": ">"})
        latest = await dead_letters.latest(patient.bus, MAX_TOLD)
        left_out = await dead_letters.latest(patient.bus, MAX_LEFT_OUT, dead_letters.LEFT_OUT)
    except NotFound:
        return [dead({}, ())]
    return [dead(info["state"].get("subjects") or {}, latest, left_out)]


def dead(counts: Mapping[str, int], latest: Sequence[Letter], left_out: Sequence[Letter] = ()) -> Finding:
    """`counts` by subject. `left_out`: letters about those that were not written."""
    if not counts:
        return ok(NAME, "no dead letters")
    found = f"dead letters: {_counted(counts.items())}"
    if left_out:
        found += "; left out: " + "; ".join(each.note.reason for each in reversed(left_out) if each.note is not None)
    if latest:
        found += "; the latest: " + "; ".join(map(_told, reversed(latest)))
    fix = "`noetlctl dlq list` says why; `dlq replay` and `dlq drop` settle them, `admin purge` removes old ones"
    return warning(NAME, found, "something was asked for or reported that no service could use", fix)


def _counted(counts: Iterable[tuple[str, int]]) -> str:
    by: Counter[str] = Counter()
    for subject, count in counts:
        by[subjects.origin_of(subject)] += count
    return ", ".join(f"{count} of {origin}" for origin, count in sorted(by.items()))


def _told(letter: Letter) -> str:
    note = letter.note
    if note is None:
        return f"{letter.origin} {letter.seq}"
    return f"{letter.origin} {note.place}: {short(note.reason, MAX_REASON)}"

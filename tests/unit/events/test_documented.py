"""docs/events.md: every event with its entity, statuses and fields of its payload; the envelope; formal names."""

import re
from typing import Any, get_args

import pytest

from shared.answers.history.formal import FormalView
from shared.events import aliases, model
from shared.events.outcome import failed, ok
from shared.events.record import Lease, Record, envelopes
from tests.support.paths import DOCS

PAGE = (DOCS / "events.md").read_text(encoding="utf-8")
EVENTS: dict[str, Any] = {each.__struct_config__.tag: each for each in get_args(model.Event)}
# Events whose status is that of what they are about; all others have one.
SPECIAL: dict[str, list[model.Event]] = {
    "playbook.request.evaluated": [model.RequestEvaluated("d"), model.RequestEvaluated(error={"kind": "x"})],
    "workflow.finished": [model.WorkflowFinished(each) for each in ("completed", "failed", "cancelled")],
    "playbook.processed": [model.PlaybookProcessed(each) for each in ("completed", "failed", "cancelled")],
    "task.done": [model.TaskDone("a", 1, each, "continue") for each in (ok(), failed("x", "no"))],
}


def table(heading: str) -> list[list[str]]:
    """The cells of the tables under a heading."""
    section = PAGE.partition(f"\n{heading}\n")[2]
    section = re.split(rf"\n#{{1,{heading.count('#')}}} ", section)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def rows() -> dict[str, list[str]]:
    return {cells[0].strip("`"): cells for cells in table("## Events by writer") if cells[0] != "event"}


def envelope(event: model.Event) -> dict[str, Any]:
    return next(envelopes(Record("e", "worker", 1, "2026-01-01T00:00:00Z", (event,),
                                 lease=Lease("start:1", "start", (1, 1), "w"))))


def test_every_event_is_on_the_page_and_no_other() -> None:
    assert rows().keys() == EVENTS.keys()


@pytest.mark.parametrize("name", EVENTS)
def test_its_row_says_entity_statuses_and_every_field(name: str) -> None:
    _, entity, status, payload = rows()[name]
    kind = EVENTS[name]
    assert entity == kind.entity
    assert status.split(", ") == ([envelope(each)["status"] for each in SPECIAL[name]] if name in SPECIAL
                                  else [kind.state])
    fields = set(kind.__struct_fields__)
    named = set(re.findall(r"`(\w+)`", payload))
    assert fields - named == set()
    assert named - fields <= {"stop_when"}, "a field that is not there"


def test_the_envelope_is_on_the_page() -> None:
    event = model.StepStarted()
    record = Record("e", "worker", 1, "2026-01-01T00:00:00Z", (event,), lease=Lease("start:1", "start", (1, 1), "w"))
    (formal,) = FormalView(lambda _digest: None).of(record)
    own = ["seq", *envelope(event)]
    assert [cells[0].strip("`") for cells in table("## The envelope")[1:]] == [
        *own, *(key for key in ("timestamp", "name", "entity", "data") if key in formal)]
    assert formal.keys() - set(own) == {"timestamp", "name", "entity", "data"}


def _marked(*names: str) -> str:
    return f"`{'` or `'.join(names)}`" if names else ""


def test_the_formal_names_are_on_the_page() -> None:
    found = table("## Formal names")
    wanted = [["event", "FS", "FX"]]
    wanted += [[_marked(own), _marked(*filter(None, [row.fs])), _marked(*filter(None, row[1:]))]
               for own, row in aliases.FORMAL.items()]
    wanted += [["FS or DSL2", "FX", "entity", "follows from", "when"]]
    wanted += [[_marked(fs), _marked(*filter(None, [row.name.fx])), row.entity,
                ", ".join(_marked(each) for each in row.of), row.when] for fs, row in aliases.SAID.items()]
    assert found == wanted

"""Templates of a workload that name the workload: what they give is what was there before them, and bounded."""

from typing import Any

from shared.dsl.compile import compile_playbook
from shared.engine.routing import decide
from shared.events import model as ev
from shared.events.request import Request
from shared.tools import registry

BOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: x, path: a/x }}
workload:
  base: 1
{keys}
workflow:
- step: start
  tool: {{ kind: noop }}
"""


def begun(*texts: str) -> list[ev.Event]:
    keys = "\n".join(f"  k{number}: {text}" for number, text in enumerate(texts))
    plan = compile_playbook(BOOK.format(keys=keys).encode(), kinds=registry.specs()).plan
    assert plan is not None
    return decide.start("e1", Request("a/x"), "", plan, 1.8e9)


def workload(events: list[ev.Event]) -> dict[str, Any]:
    return next(event.workload for event in events if isinstance(event, ev.PlaybookStarted))


def test_a_workload_does_not_hold_itself() -> None:
    assert workload(begun("'{{ workload }}'")) == {"base": 1, "k0": {"base": 1}}


def test_the_next_one_holds_the_one_before() -> None:
    found = workload(begun("'{{ workload }}'", "'{{ workload }}'"))
    assert found["k1"] == {"base": 1, "k0": {"base": 1}}


def test_what_doubles_with_every_key_is_refused_before_it_is_large() -> None:
    last = begun(*["'{{ workload }}'"] * 60)[-1]
    assert isinstance(last, ev.PlaybookProcessed)
    assert last.error is not None
    assert (last.error["kind"], "make over 1048576 bytes" in last.error["message"]) == ("limit", True)

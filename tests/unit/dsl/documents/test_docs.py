"""docs/schedules.md says what the code does: its examples work, and its limits and keys are the real ones."""

from textwrap import dedent

import pytest

from services.scheduler import trigger_runner
from shared.bus.trigger_consumer import durable
from shared.dsl.documents import schedules, triggers
from shared.dsl.documents.compile import compile_document
from shared.dsl.documents.header import MAX_DOCUMENT_NAME
from shared.dsl.documents.schedules import Schedule
from shared.dsl.documents.triggers import Trigger
from shared.engine.automation import schedules as automation_schedules
from shared.engine.automation import triggers as automation_triggers
from shared.engine.automation.triggers import Arrived
from shared.events.request import Request
from shared.runtime.stores import schedules as store_schedules
from tests.support import paths
from tests.support.clock import at

DOCS = (paths.DOCS / "schedules.md").read_text(encoding="utf-8")


def example(heading: str) -> str:
    return dedent(DOCS.split(f"\n## {heading}\n\n")[1].split("\n\n| key")[0])


def test_the_schedule_of_the_page_works() -> None:
    compiled = compile_document(example("Schedule"), kind="Schedule")
    assert compiled.diagnostics == ()
    assert isinstance(compiled.document, Schedule)
    asked = automation_schedules.request(compiled.document, at("2026-03-28T23:30Z"))
    assert asked.payload == {"day": "2026-03-29"}


def test_the_trigger_of_the_page_works() -> None:
    compiled = compile_document(example("Trigger"), kind="Trigger")
    assert compiled.diagnostics == ()
    assert isinstance(compiled.document, Trigger)
    arrived = Arrived("orders.berlin.created", b'{"id": 7, "total": 2000}', {}, ("ORDERS", 1, 1))
    asked = automation_triggers.react(compiled.document, arrived)
    assert isinstance(asked, Request)
    assert asked.payload == {"order": 7, "shop": "berlin"}


@pytest.mark.parametrize("limit", [
    schedules.DEFAULT_MADE_UP, schedules.MAX_MADE_UP, automation_schedules.ON_TIME_S, automation_schedules.RECENT,
    MAX_DOCUMENT_NAME,
    triggers.MAX_CONCURRENT, trigger_runner.MAX_WAITING, automation_triggers.MAX_KEY, store_schedules.MAX_DOCUMENTS,
])
def test_limits_are_documented(limit: int) -> None:
    assert f"{limit:,}" in DOCS


@pytest.mark.parametrize("key", [
    *schedules.SPEC_KEYS, *triggers.SPEC_KEYS, *schedules.CATCH_UP, *schedules.OVERLAP, *triggers.WHEN_FULL,
])
def test_keys_are_documented(key: str) -> None:
    assert f"`{key}`" in DOCS


def test_the_name_of_a_triggers_consumer_is_documented() -> None:
    assert f"`{durable('<name>')}`" in DOCS

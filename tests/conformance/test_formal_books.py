"""A formal playbook and its canonical source run alike: the same events, result and ctx."""

from typing import Any

import pytest

from shared.dsl.authoring.format import canonical
from shared.dsl.compile import compile_playbook
from shared.dsl.templates.evaluate import evaluate
from shared.events.outcome import Outcome, ok
from shared.events.record import event_type
from shared.tools import registry
from tests.conformance.stand.formal_books import BOOKS, Book
from tests.unit.engine.support import Driver

FAILS = {"case_unhandled", "retry_given_up"}


def run(book: Book, text: str, *, strict: bool) -> Driver:
    compiled = compile_playbook(text, kinds=registry.specs(), strict=strict)
    assert compiled.plan is not None, [str(each) for each in compiled.diagnostics]
    tasks = {(step.name, task.name): task for step in compiled.plan.steps.values() for task in step.tasks}
    answer = book.tool()

    def work(step: str, name: str, names: dict[str, Any]) -> Outcome:
        config = {key: value for key, value in tasks[step, name].config.items() if key != "code"}
        given = evaluate(config, names).get("args")
        return answer(name) or ok(given)

    return Driver(compiled.plan, work, book.payload).run()


def events(driver: Driver) -> list[tuple[str, str, str]]:
    """Type, step and task of every event, in the order of the log."""
    return [(event_type(event), getattr(event, "step", ""), getattr(event, "task", ""))
            for record in driver.log for event in record.events]


@pytest.mark.parametrize("name", BOOKS)
def test_a_formal_playbook_runs_as_its_canonical_source_does(name: str) -> None:
    book = BOOKS[name]
    written = canonical(book.source, kinds=registry.specs()).text
    assert written is not None
    formal, migrated = run(book, book.source, strict=False), run(book, written, strict=True)
    assert events(formal) == events(migrated)
    assert formal.state.status == migrated.state.status == ("failed" if name in FAILS else "completed")
    assert (formal.state.results, formal.state.ctx) == (migrated.state.results, migrated.state.ctx)
    assert formal.state.error == migrated.state.error


def test_there_are_thirty_and_none_is_canonical_already() -> None:
    strict = [name for name, book in BOOKS.items()
              if compile_playbook(book.source, kinds=registry.specs(), strict=True).plan is not None]
    assert (len(BOOKS), strict) == (30, [])

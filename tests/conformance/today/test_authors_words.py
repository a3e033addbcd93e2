"""What is wrong with a lowered playbook is said in the words of its author: no name that lowering made up and no
expression that it rewrote is in a diagnostic or in an error of a run. Every book is broken in every place."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from shared.answers.rehearsal.rehearse import rehearse
from shared.answers.rehearsal.setting import Conditions, Limits, Opening
from shared.answers.rehearsal.types import Need
from shared.dsl.compile import compile_playbook
from shared.dsl.lower.lower import lower
from shared.dsl.source.load import load
from shared.events import model as ev
from shared.events.outcome import Outcome, ok
from shared.tools import registry
from tests.conformance.stand import formal_books, todays_books
from tests.conformance.stand.formal_books import Book

KINDS = registry.specs()
BOOKS = {**formal_books.BOOKS, **{f"today_{name}": book for name, book in todays_books.BOOKS.items()}}
SPOT = re.compile(r"\{\{.*?\}\}", re.DOTALL)
QUOTED = re.compile(r"`(\{\{.*?)`", re.DOTALL)
WRONG = ("{{ nosuch.x }}", "{{ 1 + }}", "{{ 1 / 0 }}", "{{ keychain.a.b }}", "{{ result.nope.more }}",
         "{{ output.nope }}")
OTHER: tuple[Any, ...] = ({"zz": 1},)
OURS = {"outcome", "_prev", "_now", "iter", "output_ended"}  # what lowering writes, and not every author


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def generated(source: str) -> set[str]:
    document, _ = load(source)
    return set(lower(document, KINDS).labels) if document is not None else set()


def said(book: Book, source: str) -> Iterator[tuple[str, str]]:
    """Everything that is said about the playbook, compiled and run, each with the fix that comes with it."""
    compiled = compile_playbook(source, kinds=KINDS)
    yield from ((each.message, each.fix) for each in compiled.diagnostics)
    if compiled.plan is None:
        return
    call = book.tool()

    def answer(need: Need) -> Outcome:
        return call(need.task) or ok(need.config.get("args"))

    ran = rehearse(compiled.plan, answer, KINDS, Opening(payload=book.payload), Conditions(limits=Limits(events=3000)))
    outcomes = [event.outcome for _, record in ran.entries for event in record.events
                if isinstance(event, ev.TaskDone | ev.TaskRetried)]
    for error in (ran.state.error, *(outcome.error for outcome in outcomes)):
        if error is not None:
            yield str(error.get("message")), ""


def broken(book: Book) -> Iterator[str]:
    """The book with one template that is wrong, or one value that is another."""
    for spot in SPOT.finditer(book.source):
        for text in WRONG:
            yield book.source[:spot.start()] + text + book.source[spot.end():]
    data = yaml.safe_load(book.source)
    for path in places(data["workflow"], ("workflow",)):
        for value in OTHER:
            changed = copy.deepcopy(data)
            owner = changed
            for key in path[:-1]:
                owner = owner[key]
            owner[path[-1]] = value
            yield json.dumps(changed)


def places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(below, (*path, key))


def foreign(source: str, message: str, fix: str) -> set[str]:
    """What is in a message and was not written by the author."""
    unknown = words(message) - words(source)
    found = unknown & OURS | (unknown | (words(fix) - words(source))) & generated(source)
    return found | {text for text in QUOTED.findall(message) if text.rstrip("…") not in source}


@pytest.mark.parametrize("name", BOOKS)
def test_nothing_is_said_that_the_author_did_not_write(name: str) -> None:
    seen = 0
    for source in (BOOKS[name].source, *broken(BOOKS[name])):
        for message, fix in said(BOOKS[name], source):
            seen += 1
            assert foreign(source, message, fix) == set(), (source, message, fix)
    assert seen


def test_words_that_are_made_up_are_found() -> None:
    source = BOOKS["sink"].source
    assert foreign(source, "task 'start_sink' has no kind", "") == {"start_sink"}
    assert foreign(source, "no task", "one of: start_done") == {"start_done"}
    assert foreign(source, "it is undefined, in `{{ outcome.result.n }}`", "") == {"outcome", "{{ outcome.result.n }}"}
    assert foreign(source, "it is undefined, in `{{ result.n }}`", "") == set()

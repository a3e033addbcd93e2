"""What earlier versions wrote is read, folded, verified and told as it was then (ADR 50).

A failure here is a defect of what changed, not of the recording: an execution of that version is in somebody's log.
"""

import asyncio
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from shared.dsl.model.edition import EDITION, edition_of
from shared.errors import Forged
from shared.events import subjects
from shared.events.record import Kept, Record, decode
from tests.golden import files
from tests.golden.answers import answers
from tests.golden.inside.worlds import describe

VERSIONS = pytest.mark.parametrize("version", files.versions())
DIGEST = re.compile(r'"playbook.request.evaluated","digest":"([0-9a-f@]+)"')
MOST = 20  # differences that are shown


@cache
def logs(version: str) -> list[files.Recorded]:
    return [files.recorded(version, name) for name in files.logs(version)]


@cache
def said(version: str) -> dict[str, Any]:
    """By the code of today, of all logs of a version."""
    return {log.name: asyncio.run(answers(log)) for log in logs(version)}


def whole(value: Any) -> Any:
    """With all its fields, also those that are not written because they are as usual."""
    match value:
        case Struct():
            fields = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
            tag = value.__struct_config__.tag
            named = {value.__struct_config__.tag_field: tag} if tag else {}
            return named | {written: whole(getattr(value, name)) for name, written in fields}
        case dict():
            return {key: whole(each) for key, each in value.items()}
        case list() | tuple():
            return [whole(each) for each in value]
    return value


def unread(log: files.Recorded) -> Iterator[str]:
    """Of each record what its reader does not know. One that is forged is nothing to any reader."""
    for line in log.lines:
        if line.subject.startswith(f"{subjects.EVENTS}."):
            place = (subjects.parse_event(line.subject).partition, line.seq)
            try:
                record = decode(Kept(line.subject, line.data, line.seq, line.at), log.partitions)
            except Forged as error:
                yield from () if place in log.forged else [f"{line.subject} @{line.seq}: {error}"]
                continue
            for lost in files.differences(msgspec.json.decode(line.data), whole(record)):
                yield f"{line.subject} @{line.seq} {lost}"


@VERSIONS
def test_every_field_that_was_written_is_read(version: str) -> None:
    """All of it, under the names it was written with: a reader ignores what it does not know."""
    assert [(log.name, lost) for log in logs(version) for lost in unread(log)] == []
    assert sum(len(log.lines) for log in logs(version)) > 800


@VERSIONS
def test_what_is_not_written_means_what_it_meant(version: str) -> None:
    """A field at its default is not in the record, so the default is a part of the log."""
    today: dict[str, dict[str, Any]] = {}
    describe(msgspec.inspect.type_info(Record), today)
    now = msgspec.json.decode(msgspec.json.encode(today))  # where a tuple is a list
    assert list(files.differences(files.fields(version), now)) == []


@VERSIONS
def test_every_history_is_right(version: str) -> None:
    """By the rules that it began with, whatever was said of it before. What is forged is named, and nothing else."""
    wrong, count = [], 0
    for log in logs(version):
        for execution_id, found in said(version)[log.name]["executions"].items():
            partition = subjects.partition_of(execution_id, log.partitions)
            named = [(rule, seq) for rule, seq in found["verify"]["wrong"] if (partition, seq) not in log.forged]
            wrong += [(log.name, execution_id, *each) for each in named]
            assert found["verify"]["verdict"] in ("verified", "unfinished", "violated"), (log.name, execution_id)
            count += 1
    assert wrong == []
    assert count > 60


@VERSIONS
def test_the_answers_are_those_of_then(version: str) -> None:
    changed = list(files.differences(files.answers(version), said(version)))
    assert changed[:MOST] == [], f"{len(changed)} answers changed; tests/golden/expect.py says what to do"


def test_every_edition_of_the_language_is_recorded() -> None:
    """A change of the rules comes with a recording of the version before it."""
    found = {
        edition_of(plan) for version in files.versions() for log in logs(version) for line in log.lines
        for plan in DIGEST.findall(line.text) if line.subject.startswith(f"{subjects.EVENTS}.")
    }
    assert found == set(range(1, EDITION + 1))

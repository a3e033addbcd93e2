"""docs/first-ten-minutes.md and README.md are true: what they say is typed in an empty folder of a fresh virtualenv."""

import json
import re

import pytest

from tests.support.documents import fresh, transcript
from tests.support.documents.transcript import Shell
from tests.support.paths import DOCS

WITHIN_S = 120.0
MINUTES = (DOCS / "first-ten-minutes.md").read_text(encoding="utf-8")


def test_the_first_ten_minutes_go_as_they_are_written(typed: Shell) -> None:
    for step in transcript.steps(MINUTES):
        fresh.follow(typed, step, WITHIN_S)


def test_the_readme_leads_to_a_first_success(typed: Shell) -> None:
    """Its first block installs; the others are typed where nothing is."""
    _, *others = transcript.steps(fresh.README)
    assert others
    for step in others:
        fresh.follow(typed, step, WITHIN_S)


def test_the_first_success_is_on_the_first_screen() -> None:
    assert fresh.README.index("2 passed") < fresh.README.index("## What is where")
    assert fresh.README[:fresh.README.index("## What is where")].count("\n") <= 45


def test_the_recording_is_of_this_session() -> None:
    header, *events = [json.loads(line) for line in (DOCS / "first-ten-minutes.cast").read_text().splitlines()]
    assert header["version"] == 2
    typed = "".join(text for _, _, text in events)
    for step in transcript.steps(MINUTES):
        again = f"record it again: python -m tests.support.documents.cast (line {step.line})"
        assert all(f"$ {line}\r\n" in typed for line in step.command.splitlines()), again
    assert [at for at, _, _ in events] == sorted(at for at, _, _ in events)


@pytest.mark.parametrize("page", [fresh.README, MINUTES], ids=["README", "first-ten-minutes"])
def test_no_block_opens_the_prompt_of_debug(page: str) -> None:
    """It is there on a terminal alone, where it takes the rest of the block for its commands."""
    lines = [line for step in transcript.steps(page) for line in step.command.splitlines()]
    assert [line for line in lines if "noetlctl debug" in line and not re.search(r" (--eval|-o) ", line)] == []


def test_a_command_that_reads_its_input_does_not_go_unnoticed(typed: Shell) -> None:
    with pytest.raises(AssertionError, match="not done within 1 s"):
        typed.run("cat > /dev/null\necho behind", 1.0)


@pytest.mark.parametrize(("expected", "got", "fits"), [
    ([], [], True), ([], ["x"], False), (["a…c"], ["abc"], True), (["a…c"], ["abd"], False),
    (["…", "b"], ["x", "y", "b"], True), (["…", "b"], ["x", "b", "c"], False), (["a", "…"], ["a"], True),
    (["a", "…", "c", "…"], ["a", "b", "c", "d"], True), (["a"], ["a", "b"], False), (["a", "b"], ["a"], False),
])
def test_a_transcript_tells_what_does_not_fit(expected: list[str], got: list[str], fits: bool) -> None:
    assert (transcript.misfit(expected, got) == "") is fits

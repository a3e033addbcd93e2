"""docs/first-ten-minutes.md is true: every command is run, and what it prints fits."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.cli import environment
from tests.support.documents import transcript
from tests.support.paths import DOCS

WITHIN_S = 90.0


def prepared(folder: Path) -> dict[str, str]:
    """The environment of a shell in which `noetlctl` is this one, and nothing of the user's is read."""
    programs = folder / "bin"
    programs.mkdir()
    command = programs / "noetlctl"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m services.cli "$@"\n')
    command.chmod(0o755)
    shutil.copy(DOCS / "first-ten-minutes" / "pages.yaml", folder)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return environment(PATH=path, XDG_CONFIG_HOME=str(folder / "config"))


def test_the_first_ten_minutes_go_as_they_are_written() -> None:
    """Not in pytest's folder: run by root, PostgreSQL is another user's."""
    with tempfile.TemporaryDirectory(prefix="noetl-minutes-") as name:
        shell = transcript.Shell(Path(name), prepared(Path(name)))
        try:
            for step in transcript.steps((DOCS / "first-ten-minutes.md").read_text(encoding="utf-8")):
                got = shell.run(step.command, WITHIN_S)
                wrong = transcript.misfit(step.expected, got)
                assert not wrong, f"line {step.line}, $ {step.command}: {wrong}\n" + "\n".join(got)
        finally:
            shell.close()


def test_the_recording_is_of_this_session() -> None:
    header, *events = [json.loads(line) for line in (DOCS / "first-ten-minutes.cast").read_text().splitlines()]
    assert header["version"] == 2
    typed = "".join(text for _, _, text in events)
    for step in transcript.steps((DOCS / "first-ten-minutes.md").read_text(encoding="utf-8")):
        again = f"record it again: python -m tests.support.documents.cast (line {step.line})"
        assert f"$ {step.command}\r\n" in typed, again
    assert [at for at, _, _ in events] == sorted(at for at, _, _ in events)


@pytest.mark.parametrize(("expected", "got", "fits"), [
    ([], [], True), ([], ["x"], False), (["a…c"], ["abc"], True), (["a…c"], ["abd"], False),
    (["…", "b"], ["x", "y", "b"], True), (["…", "b"], ["x", "b", "c"], False), (["a", "…"], ["a"], True),
    (["a", "…", "c", "…"], ["a", "b", "c", "d"], True), (["a"], ["a", "b"], False), (["a", "b"], ["a"], False),
])
def test_a_transcript_tells_what_does_not_fit(expected: list[str], got: list[str], fits: bool) -> None:
    assert (transcript.misfit(expected, got) == "") is fits

"""noetlctl migrate, also called fmt."""

from pathlib import Path

import pytest

from services.cli.console import exits
from tests.support.cli import noetlctl
from tests.support.playbooks import head

HEAD = head("m")
FORMAL = HEAD + "workflow:\n- step: start\n  tool: {kind: noop}\n  next: end # on\n- {step: end}\n"
GOOD = HEAD + """\
workflow:
  - step: start
    tool: {kind: noop}
    # on
    next:
      arcs:
        - step: end

  - {step: end}
"""
BAD = HEAD + "workflow: [{step: start, tol: 1}]\n"


def write(folder: Path, text: str, name: str = "p.yaml") -> Path:
    file = folder / name
    file.write_bytes(text.encode("utf-8"))
    return file


@pytest.mark.parametrize("name", ["migrate", "fmt"])
def test_the_text_goes_to_stdout_and_the_file_stays(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, FORMAL)
    assert noetlctl(name, str(file)) == exits.OK
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (GOOD, f"{file}: changed\n")
    assert file.read_text(encoding="utf-8") == FORMAL


def test_write_rewrites_the_files_that_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    formal, good = write(tmp_path, FORMAL), write(tmp_path, GOOD, "good.yaml")
    assert noetlctl("migrate", "--write", str(formal), str(good)) == exits.OK
    assert [formal.read_text(encoding="utf-8"), good.read_text(encoding="utf-8")] == [GOOD, GOOD]
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"{formal}: rewritten\n")


@pytest.mark.parametrize(("text", "code"), [(GOOD, exits.OK), (FORMAL, exits.INVALID)])
def test_check_says_whether_a_file_would_change(text: str, code: int, tmp_path: Path) -> None:
    file = write(tmp_path, text)
    assert noetlctl("migrate", "--check", str(file)) == code
    assert file.read_text(encoding="utf-8") == text


def test_a_playbook_that_is_not_valid_is_left_as_it_is_and_the_others_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, formal = write(tmp_path, BAD, "bad.yaml"), write(tmp_path, FORMAL)
    assert noetlctl("migrate", "--write", str(bad), str(formal)) == exits.INVALID
    assert (bad.read_text(encoding="utf-8"), formal.read_text(encoding="utf-8")) == (BAD, GOOD)
    assert f"{bad}:4:" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--write", "--check", "P"], ["P", "P"], [], ["nosuch.yaml"]])
def test_wrong_use_is_one_line(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, FORMAL)
    assert noetlctl("migrate", *(str(file) if each == "P" else each for each in options)) == exits.USAGE
    assert capsys.readouterr().out == ""
    assert file.read_text(encoding="utf-8") == FORMAL

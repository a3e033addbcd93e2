"""What `up` suggests is in the folder."""

from pathlib import Path

from services.cli.stack.welcome import playbooks
from tests.support.paths import ROOT


def test_playbooks_are_found_by_what_they_say(tmp_path: Path) -> None:
    assert playbooks(tmp_path) == []
    (tmp_path / "a.yaml").write_text("kind: Schedule\nmetadata: {name: a}\n")
    (tmp_path / "b.yaml").write_text("not: [yaml\n")
    (tmp_path / "c.yml").write_text("kind: Playbook\nmetadata: {name: c}\n")
    (tmp_path / "d.yaml").write_text("kind: Playbook\nmetadata: {name: d, path: x/d}\n")
    assert playbooks(tmp_path) == [(Path("d.yaml"), "x/d"), (Path("c.yml"), "c")]


def test_the_simplest_of_the_examples_comes_first() -> None:
    assert playbooks(ROOT)[0] == (Path("examples/hello.yaml"), "examples/hello")

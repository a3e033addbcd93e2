"""What shells complete; in each shell that is here, as it does it itself."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from services.cli import main
from services.cli.commands.completion import VARIABLE
from services.cli.stack import completions, context
from tests.support.cli import environment
from tests.support.paths import ROOT

Found = Callable[..., list[str]]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Found:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_CONFIG", str(tmp_path / "config.json"))
    for name in ("NOETL_CONTEXT", "NOETL_NATS_URL"):
        monkeypatch.delenv(name, raising=False)
    shell = BashComplete(main.cli, {}, "noetlctl", VARIABLE)
    return lambda *words: [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_nouns_statuses_and_topics_complete_without_a_stack(found: Found) -> None:
    assert found("get", "p") == ["playbooks", "pools"]
    assert found("get", "--status", "c") == ["cancelling", "compensating", "completed", "cancelled"]
    assert found("get", "--status", "failed,comp") == ["failed,compensating", "failed,completed"]
    assert found("explain", "workl") == ["workload"]
    assert "http" in found("explain", "ht")
    assert found("explain", "http.ur") == ["http.url"]
    assert {"step.spec.pool", "step.spec.policy"} <= set(found("explain", "step.spec.po"))
    assert found("explain", "DSL41")[0] == "DSL410"
    assert found("explain", "nothing.") == []


def test_names_are_those_of_the_stack(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def names(ctx: object, _load: object) -> list[str]:
        assert isinstance(ctx, click.Context)
        asked.append(completions.typed_path(ctx))
        return ["etl/a", "etl/b"]

    monkeypatch.setattr(completions, "asked", names)
    for words in (("execute",), ("playbook", "history"), ("get", "playbook"), ("get", "pools"), ("pool", "scale"),
                  ("get", "--path"), ("credential", "delete")):
        assert found(*words, "etl/") == ["etl/a", "etl/b"], words
    assert found("playbook", "rollback", "etl/a", "--to", "") == ["etl/a", "etl/b"]
    assert asked[-1] == "etl/a"


def test_no_stack_and_a_stack_that_is_away_complete_nothing_and_say_nothing(
    found: Found, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found("execute", "") == []
    monkeypatch.setattr(completions, "WITHIN_S", 0.2)
    monkeypatch.setenv("NOETL_NATS_URL", "nats://127.0.0.1:9")
    assert found("execute", "") == found("pool", "pause", "") == []
    assert capfd.readouterr() == ("", "")
    assert context.find(None).nats_url == "nats://127.0.0.1:9"


SCRIPTS = {
    "bash": """eval "$(noetlctl completion bash)"
COMP_WORDS=(noetlctl get pl); COMP_CWORD=2; _noetlctl_completion noetlctl; printf '%s\\n' "${COMPREPLY[@]}"
COMP_WORDS=(noetlctl explain worklo); COMP_CWORD=2; _noetlctl_completion noetlctl; printf '%s\\n' "${COMPREPLY[@]}"
""",
    "zsh": """compdef() { :; }; compadd() { print -rl -- "${completions[@]}"; }
_describe() { eval 'for each in "${'$3'[@]}"; do print -r -- "${each%%:*}"; done'; }
eval "$(noetlctl completion zsh)"
words=(noetlctl get pl); CURRENT=3; _noetlctl_completion
words=(noetlctl explain worklo); CURRENT=3; _noetlctl_completion
""",
    "fish": """noetlctl completion fish | source
complete -C "noetlctl get pl"
complete -C "noetlctl explain worklo"
""",
}


@pytest.mark.parametrize("shell", [each for each in SCRIPTS if shutil.which(each)])
def test_a_shell_completes(shell: str, tmp_path: Path) -> None:
    command = tmp_path / "bin" / "noetlctl"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m services.cli \"$@\"\n")
    command.chmod(0o755)
    env = environment(PATH=f"{command.parent}{os.pathsep}{os.environ['PATH']}", HOME=str(tmp_path),
                      PYTHONPATH=str(ROOT))
    done = subprocess.run([shell, "-c", SCRIPTS[shell]], capture_output=True, text=True, cwd=tmp_path, env=env,
                          timeout=120, check=False)
    said = [line.split("\t")[0] for line in done.stdout.split()]
    assert {"playbooks", "workload"} <= set(said), done

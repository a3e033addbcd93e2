"""Files of scripts: none unless the operator names a folder, and then that folder's own, never those of a stack."""

from pathlib import Path

import pytest

from shared.events.outcome import Outcome
from shared.tools.base.contract import ToolOptions
from shared.tools.registry import open_tool
from tests.support.calls import call
from tests.support.cli import Cli, cli

__all__ = ["cli"]

SECRET = "result = 'secret'"


async def run(uri: str, scripts: str = "") -> Outcome:
    tool = open_tool("python", ToolOptions(python_processes=1, scripts=scripts))
    outcome = await tool.run(call({"script": {"uri": uri, "source": {"type": "file"}}}))
    await tool.close()
    assert isinstance(outcome, Outcome)
    return outcome


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder one works in: scripts, the folders of two stacks, a repository."""
    for name in ("own.py", ".noetl/context.json", ".noetl/nats/passwords.json", "data/nats/passwords.json",
                 "data/logs/router.log", ".env", ".git/config", "sub/own.py", "sub/.hidden.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SECRET)
    (tmp_path / "link.py").symlink_to(tmp_path / ".noetl" / "context.json")
    (tmp_path / "way").symlink_to(tmp_path / ".noetl", target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("uri", ["own.py", "./own.py", "file://own.py", "/etc/passwd", ".noetl/context.json"])
async def test_without_the_setting_no_file_is_a_script(project: Path, uri: str) -> None:
    for given in (uri, str(project / uri)):
        outcome = await run(given)
        assert outcome.error is not None
        assert (outcome.error["kind"], outcome.error["retryable"]) == ("script", False)
        assert "NOETL_SCRIPTS" in outcome.error["message"]
        assert "secret" not in str(outcome.result)


@pytest.mark.parametrize("uri", [
    ".noetl/context.json", "sub/../.noetl/context.json", "link.py", "way/context.json", "data/nats/passwords.json",
    "data/logs/router.log", ".env", ".git/config", "sub/.hidden.py", "../outside.py", "/etc/passwd",
])
async def test_what_is_a_stacks_or_hidden_stays_out(project: Path, uri: str) -> None:
    outcome = await run(uri, str(project))
    assert outcome.error is not None
    assert outcome.error["kind"] == "script"
    assert "secret" not in str(outcome.result)


async def test_a_stacks_folder_is_no_folder_of_scripts(project: Path) -> None:
    for folder in (".noetl", ".noetl/nats", "data", "data/logs", "way"):
        for name in ("context.json", "passwords.json", "nats/passwords.json", "router.log"):
            assert (await run(name, str(project / folder))).error is not None, folder


async def test_the_folder_gives_its_own(project: Path) -> None:
    for uri in ("own.py", "sub/own.py", str(project / "own.py"), "sub/../own.py"):
        assert (await run(uri, str(project))).result == "secret"


PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: scripted, path: scripted }
workflow:
  - step: start
    tool: { kind: python, script: { uri: own.py } }
"""


def test_run_hands_its_worker_what_the_user_asked_for_and_no_more(cli: Cli, project: Path) -> None:
    (project / "scripted.yaml").write_text(PLAYBOOK)
    refused = cli("run", "scripted.yaml", cwd=project)
    assert refused.returncode == 4
    assert "NOETL_SCRIPTS" in refused.stderr
    done = cli("run", "scripted.yaml", cwd=project, NOETL_SCRIPTS=".")
    assert done.returncode == 0, done.stderr
    assert "secret" in done.stdout

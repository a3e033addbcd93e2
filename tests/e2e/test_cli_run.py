"""noetlctl run on a real embedded stack: results, exit codes, input, interruption."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import COMMAND, Cli, environment
from tests.support.examples import HELLO
from tests.support.paths import ROOT
from tests.support.playbooks import head


def playbook(folder: Path, *steps: dict[str, Any], **root: Any) -> str:
    file = folder / "playbook.yaml"
    document = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "t", "path": "tests/t"},
        **root,
        "workflow": list(steps),
    }
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return str(file)


def python(code: str, **args: str) -> dict[str, Any]:
    return {"kind": "python", "args": args, "code": code}


def echo_workload(folder: Path) -> str:
    return playbook(
        folder,
        {"step": "start", "tool": python("result = got", got="{{ workload }}")},
        workload={"a": {"x": 1}, "b": "old"},
    )


def test_hello_completes_and_prints_its_result_alone(cli: Cli) -> None:
    done = cli("run", HELLO)
    assert done.returncode == 0, done.stderr
    lines = ["Hello, Ada!", "Hello, Grace!", "Hello, Edsger!", "Hello, Barbara!"]
    assert json.loads(done.stdout) == {"count": 4, "lines": lines}
    assert "✓ greet 4/4" in done.stderr


def test_json_output_is_exactly_one_object(cli: Cli) -> None:
    done = cli("run", HELLO, "-o", "json", "--set", 'names=["Linus"]', "--set", "greeting=Hi")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert len(shown.pop("execution_id")) == 20
    assert shown == {
        "status": "completed",
        "result": {"count": 1, "lines": ["Hi, Linus!"]},
        "ctx": {"count": 1},
        "error": None,
        "failure": None,
        "steps": {
            "start": {"runs": 1, "status": "done"},
            "greet": {"runs": 1, "status": "done"},
            "collect": {"runs": 1, "status": "done"},
        },
    }


def test_a_failed_execution_exits_4_and_names_the_error(cli: Cli, tmp_path: Path) -> None:
    file = playbook(tmp_path, {"step": "start", "tool": python("raise ValueError('no luck')")})
    done = cli("run", file, "-o", "json")
    assert done.returncode == 4, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["status"], shown["steps"]) == ("failed", {"start": {"runs": 1, "status": "failed"}})
    assert "no luck" in shown["error"]["message"]


def test_a_failed_execution_says_so_in_text_too(cli: Cli, tmp_path: Path) -> None:
    file = playbook(tmp_path, {"step": "start", "tool": python("raise ValueError('no luck')")})
    done = cli("run", file)
    assert (done.returncode, done.stdout) == (4, "")
    assert "no luck" in done.stderr.splitlines()[-1]


def test_an_invalid_playbook_exits_3_with_every_diagnostic(cli: Cli, tmp_path: Path) -> None:
    file = playbook(
        tmp_path,
        {"step": "start", "tool": {"kind": "nosuch"}, "next": {"arcs": [{"step": "missing"}]}},
        {"step": "start", "tool": {"kind": "noop"}},
    )
    done = cli("run", file)
    assert (done.returncode, done.stdout) == (3, "")
    diagnostics = [line for line in done.stderr.splitlines() if " error DSL" in line]
    assert len(diagnostics) >= 3
    assert all(line.startswith(file + ":") for line in diagnostics)


@pytest.mark.parametrize("form", ["json", "file", "stdin"])
def test_payload_forms_give_the_same_workload(cli: Cli, tmp_path: Path, form: str) -> None:
    text = '{"a": {"y": 2}, "b": "new"}'
    (tmp_path / "p.json").write_text(text)
    given = {"json": text, "file": "@p.json", "stdin": "-"}[form]
    done = cli("run", echo_workload(tmp_path), "--payload", given, "--set", "c.d=true", stdin=text)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert (got["a"]["y"], got["b"], got["c"]) == (2, "new", {"d": True})


@pytest.mark.parametrize(
    "args",
    [("--payload", "[1]"), ("--payload", "@missing.json"), ("--set", "novalue"), ("--timeout", "0"), ("--nope",)],
)
def test_wrong_usage_exits_2_without_a_traceback(cli: Cli, args: tuple[str, ...]) -> None:
    done = cli("run", HELLO, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_is_one_clear_line(cli: Cli) -> None:
    done = cli("run", "nowhere.yaml")
    assert (done.returncode, done.stderr) == (2, "noetlctl: cannot read nowhere.yaml: No such file or directory\n")


def test_a_run_over_its_timeout_exits_6(cli: Cli, tmp_path: Path) -> None:
    file = playbook(tmp_path, {"step": "start", "tool": python("import time; time.sleep(60)")})
    done = cli("run", file, "--timeout", "1")
    assert done.returncode == 6, done.stderr
    assert done.stderr.splitlines()[-1] == "noetlctl: not finished within 1 s"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_exits_130_and_leaves_nothing_running(tmp_path: Path, number: int) -> None:
    file = playbook(tmp_path, {"step": "start", "tool": python("import time; time.sleep(60)")})
    with subprocess.Popen(
        [*COMMAND, "run", file, "--timeout", "60"],
        env=environment(TMPDIR=str(tmp_path)),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "start" in line:
                break
        os.killpg(process.pid, number)  # as a terminal does: everyone of the group gets it
        began = time.monotonic()
        assert process.wait(30) == 130
        assert time.monotonic() - began < 15
    assert not list(tmp_path.glob("noetl-*"))
    assert str(tmp_path) not in _commands()


def _commands() -> str:
    """The command lines of all processes."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def test_credentials_reach_the_tool_and_not_the_output(cli: Cli, tmp_path: Path) -> None:
    file = playbook(
        tmp_path,
        {"step": "start", "tool": python("result = len(secret)", secret="{{ keychain.pg.password }}")},
        keychain=[{"name": "pg", "kind": "secret"}],
    )
    done = cli("run", file, "--folder", "kept", "--credential", 'pg={"password": "s3cret"}')
    assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr
    assert "s3cret" not in done.stderr + (tmp_path / "kept" / "run.log").read_text()


def test_a_folder_keeps_the_log_and_the_read_model_between_runs(cli: Cli, tmp_path: Path) -> None:
    file = playbook(tmp_path, {"step": "start", "tool": python("result = 1")})
    for _ in range(2):
        done = cli("run", file, "--folder", "kept")
        assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert (tmp_path / "kept" / "nats" / "data").is_dir()
    assert (tmp_path / "kept" / "postgres" / "PG_VERSION").exists()
    assert str(tmp_path) not in _commands()


@pytest.mark.parametrize("name", ["retry", "fallback"])
def test_the_small_examples_run(cli: Cli, name: str) -> None:
    done = cli("run", str(ROOT / "examples" / f"{name}.yaml"))
    assert done.returncode == 0, done.stderr


def test_the_playbook_of_the_readme_runs(cli: Cli, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (tmp_path / "readme.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
    done = cli("run", "readme.yaml")
    assert (done.returncode, done.stdout) == (0, "14\n"), done.stderr


def test_a_playbook_runs_with_those_it_calls(cli: Cli, tmp_path: Path) -> None:
    parent = "  - {step: start, tool: {kind: playbook, path: child, args: {n: 20}}}\n"
    child = '  - {step: start, tool: {kind: noop, args: {twice: "{{ workload.n * 2 }}"}}}\n'
    (tmp_path / "parent.yaml").write_text(head("parent", "parent") + "workflow:\n" + parent)
    (tmp_path / "child.yaml").write_text(head("child", "child") + "workflow:\n" + child)
    done = cli("run", "parent.yaml", "--with", "child.yaml", "-o", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == {"twice": 40}
    alone = cli("run", "parent.yaml", cwd=tmp_path)
    assert alone.returncode == 1
    assert "refused: step start calls a playbook that is not there: no playbook 'child' is registered" in alone.stderr

"""noetlctl verify, trace and diff on a running stack."""

import json
from typing import Any

import asyncpg
import pytest

from tests.support.cli import Cli, Up, run

BOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: answers, path: tests/answers, labels: {team: data}}
workload: {items: [1, 2, 3], size: 10}
workflow:
  - step: start
    loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: sequential}}
    tool:
      name: square
      kind: python
      args: {n: "{{ iter.item }}"}
      code: "result = n * n"
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {all: {$append: "{{ iter.item }}"}}}}}]}}
    next: {arcs: [{step: pause}]}
  - step: pause
    tool: {kind: wait, for: 1s}
    next: {arcs: [{step: large}]}
  - step: large
    tool: {kind: python, args: {size: "{{ workload.size }}"}, code: "result = 'x' * size"}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: python, args: {text: "{{ large }}"}, code: "result = len(text)"}
"""


STATUS = "UPDATE noetl.step_run SET status = $2 WHERE step_run_id = 'last:1' AND execution_id = $1"
KEY = "UPDATE noetl.ctx SET key = $3 WHERE key = $2 AND execution_id = $1"


@pytest.fixture(scope="module")
def registered(up: Up) -> str:
    file = up.folder / "answers.yaml"
    file.write_text(BOOK)
    done = run("register", str(file), cwd=up.folder)
    assert done.returncode == 0, done.stderr
    return "tests/answers"


def executed(up: Up, path: str, *options: str) -> str:
    done = run("execute", path, "--wait", "-o", "json", *options, cwd=up.folder)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["execution_id"])


@pytest.fixture(scope="module")
def one(up: Up, registered: str) -> str:
    return executed(up, registered, "--set", "size=300000")


def asked(up: Up, cli: Cli, code: int, *args: str) -> Any:
    done = cli(*args, "-o", "json", cwd=up.folder)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


async def run_sql(up: Up, statement: str, *values: Any) -> None:
    connection = await asyncpg.connect(up.context["postgres_admin_dsn"])
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()


async def test_an_execution_is_proved_and_a_changed_row_is_found(up: Up, cli: Cli, one: str) -> None:
    found = asked(up, cli, 0, "verify", one, "--wait", "60")
    assert (found["verdict"], found["violations"], found["reason"]) == ("verified", [], "")
    assert (found["proof"]["loops"]["iterations_ended"], found["proof"]["waits"]) == (3, {"begun": 1, "over": 1})
    assert found["projection"]["state"] == "same"
    assert found["projection"]["tables"] == {
        "execution": 1, "event": found["projection"]["tables"]["event"], "step_run": 4, "iteration": 3, "loop": 1,
        "task_run": found["projection"]["tables"]["task_run"], "ctx": 1,
    }
    await run_sql(up, STATUS, one, "failed")
    await run_sql(up, KEY, one, "all", "other")
    found = asked(up, cli, 1, "verify", one, "--all-violations")
    assert (found["verdict"], found["projection"]["state"]) == ("violated", "different")
    assert [(violation["rule"], violation["message"]) for violation in found["violations"]] == [
        ("projection", 'table step_run, row last:1: status is "failed", by the log it is "done"'),
        ("projection", "table ctx, row all: missing"),
        ("projection", "table ctx, row other: not in the log"),
    ]
    assert asked(up, cli, 0, "verify", one, "--log-only")["projection"]["state"] == "unknown"
    whole = asked(up, cli, 1, "verify", "--all", "--wait", "60")
    assert [each["execution_id"] for each in whole["listed"]] == [one]
    await run_sql(up, STATUS, one, "done")
    await run_sql(up, KEY, one, "other", "all")


def test_trace_and_diff_of_two_executions(up: Up, cli: Cli, registered: str, one: str) -> None:
    two = executed(up, registered, "--set", "size=11")
    trace = asked(up, cli, 0, "trace", one)
    assert sum(trace["parts_us"].values()) == trace["wall_us"]
    assert trace["parts_us"]["waiting"] > 800_000
    assert [run["run_id"] for run in trace["runs"]] == ["start:1", "pause:1", "large:1", "last:1"]
    text = cli("trace", one, cwd=up.folder)
    assert (text.returncode, text.stdout.isascii()) == (0, True)
    assert "start x3 |" in text.stdout
    found = asked(up, cli, 1, "diff", one, two)
    assert (found["same_path"], found["first_value"]["what"]) == (True, "pause:1: task 1 (pause_task)")  # its time
    assert [change["path"] for change in found["result"]] == ["result"]
    assert asked(up, cli, 0, "diff", one, one)["same"] is True


@pytest.mark.parametrize("args", [("verify", "nosuch"), ("trace", "nosuch"), ("diff", "nosuch", "nosuch")])
def test_unknown_execution_is_one_line_and_exit_code_7(up: Up, cli: Cli, args: tuple[str, ...]) -> None:
    done = cli(*args, cwd=up.folder)
    assert (done.returncode, done.stdout) == (7, "")
    assert done.stderr.startswith("noetlctl: no execution nosuch in the log")

"""The commands about executions on one stack: what each prints, its JSON as documented, and many at once."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import nats
import pytest

from services.cli import main
from services.cli.console import exits
from tests.support.cli import COMMAND, Up, environment
from tests.support.documents import tree
from tests.support.paths import ROOT
from tests.support.waiting import wait_until

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {0}, path: views/{0}, labels: {{team: data}}}}\n"
FLOW = HEAD.format("flow") + """\
workload: {fail: false}
workflow:
  - step: start
    tool:
      - {name: say, kind: python, code: "print('hello from python'); result = {'rows': [{'name': 'ada'}]}"}
    spec: {policy: {}}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: [1, 2], iterator: n}
    tool: {kind: noop, args: {n: "{{ iter.n }}"}}
    next: {arcs: [{step: child}]}
  - step: child
    tool: {kind: playbook, path: views/child}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: python, args: {fail: "{{ workload.fail }}"}, code: "assert not fail, 'no'\\nresult = 'fine'"}
"""
CHILD = HEAD.format("child") + "workflow:\n  - {step: start, tool: {kind: shell, cmds: [\"echo out; echo err >&2\"]}}\n"
WAITS = HEAD.format("waits") + """\
workflow:
  - step: start
    tool: {kind: signal, signal: go}
    next: {arcs: [{step: more, when: "{{ start.more | default(false) }}"}]}
  - {step: more, tool: {kind: signal, signal: other}}
"""
SCHEDULE = """\
apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: nightly}
spec: {playbook: {path: views/child}, cron: "0 2 1 1 *", timezone: Europe/Berlin}
"""
TRIGGER = """\
apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: orders}
spec: {playbook: {path: views/child}, subject: orders.new}
"""
# Documented commands whose JSON other tests hold to it.
ELSEWHERE = {"run": "test_cli_run.py", "validate": "test_validate.py"}
WITHIN_S = 30.0


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Ctl = Callable[..., Ran]


@pytest.fixture
def ctl(up: Up, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ctl:
    """noetlctl in this process, in the folder of the stack."""
    monkeypatch.chdir(up.folder)
    monkeypatch.setenv("NOETL_CONFIG", str(tmp_path / "config.json"))
    for name in ("NOETL_CONTEXT", "NOETL_NATS_URL"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main.main(list(args))
        shown = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, shown.out, shown.err)

    return call


@pytest.fixture
def done(up: Up, ctl: Ctl) -> dict[str, str]:
    """Executions to look at, made once: `good` completed, `bad` failed, `live` waits for a signal."""
    kept = up.folder / "kept.json"
    if not kept.exists():
        for name, text in (("flow", FLOW), ("child", CHILD), ("waits", WAITS), ("s", SCHEDULE), ("t", TRIGGER)):
            (up.folder / f"{name}.yaml").write_text(text)
        ran = ctl("register", "flow.yaml", "child.yaml", "waits.yaml", "-o", "json")
        assert ran.code == 0, ran.err
        assert [row["path"] for row in ran.json] == ["views/flow", "views/child", "views/waits"]
        good = ctl("execute", "views/flow", "-l", "run=good", "--id", "key-1", "--wait", "-o", "json")
        assert good.code == 0, good.err
        bad = ctl("execute", "views/flow", "--set", "fail=true", "--wait", "-o", "name")
        assert bad.code == exits.FAILED, bad.err
        live = ctl("execute", "views/waits", "-l", "run=live", "-o", "name")
        assert live.code == 0, live.err
        found = {"good": good.json["execution_id"], "bad": bad.out.strip(), "live": live.out.strip()}
        kept.write_text(json.dumps(found))
    found = json.loads(kept.read_text())
    assert isinstance(found, dict)
    return found


def listed(ctl: Ctl, *options: str) -> set[str]:
    return set(ctl("get", "executions", *options, "-o", "name").out.split())


def in_read_model(ctl: Ctl, done: dict[str, str]) -> None:
    wait_until(lambda: set(done.values()) <= listed(ctl) and done["bad"] in listed(ctl, "--status", "failed"),
               "all are in the read model", WITHIN_S)


# What is typed, as documented → what to type; {good}, {bad}, {live} and {letter} stand for names.
TYPED = {
    "watch": "watch {good}",
    "execute --wait": "execute views/child --wait",
    "rerun --wait": "rerun {good} --from last --wait",
    "retry-failed --wait": "retry-failed {bad} --wait",
    "get EXECUTION": "get {good}",
    "execute": "execute views/child",
    "signal": "signal {live} other",
    "execute --dry-run": "execute views/child --dry-run",
    "get": "get",
    "get executions": "get executions",
    "get --stuck": "get --stuck",
    "why --all": "why --all",
    "get playbooks": "get playbooks",
    "schedule apply": "schedule apply -f s.yaml",
    "trigger apply": "trigger apply -f t.yaml --dry-run",
    "get schedules": "get schedules",
    "schedule list": "schedule list",
    "get triggers": "get triggers",
    "trigger list": "trigger list",
    "credential": "credential pg={{}}",
    "credential set": "credential set pg={{}}",
    "get credentials": "get credential pg",
    "get pools": "get pools",
    "get workers": "get workers",
    "describe": "describe {bad}",
    "logs": "logs {good}",
    "events": "events {good}",
    "result": "result {good}",
    "ctx": "ctx {good}",
    "cancel": "cancel {live} --dry-run",
    "pause": "pause {live}",
    "resume": "resume {live}",
    "rerun": "rerun {good} --from last",
    "retry-failed": "retry-failed {bad}",
    "register": "register child.yaml --dry-run",
    "playbook history": "playbook history views/child",
    "playbook diff": "playbook diff views/child 1",
    "playbook rollback": "playbook rollback views/child --to 1",
    "playbook delete": "playbook delete views/spare --yes",
    "credential rotate": "credential rotate pg={{}}",
    "credential delete": "credential delete pg --yes",
    "schedule describe": "schedule describe nightly",
    "schedule next": "schedule next nightly -n 1",
    "schedule backfill": "schedule backfill nightly --from 2025-12-01 --to 2026-02-01 --dry-run",
    "schedule pause": "schedule pause nightly",
    "schedule resume": "schedule resume nightly",
    "schedule delete": "schedule delete nightly",
    "trigger describe": "trigger describe orders",
    "trigger delete": "trigger delete orders",
    "context add": "context add here --from .noetl/context.json",
    "context use": "context use here",
    "context list": "context list",
    "context show": "context show here",
    "context remove": "context remove here",
    "dlq list": "dlq list",
    "dlq show": "dlq show {letter}",
    "dlq replay": "dlq replay {letter} --body {{\"path\":\"views/child\"}} --dry-run",
    "dlq drop": "dlq drop {letter} --yes",
}


async def _bury(up: Up) -> None:
    client = await nats.connect(up.context["nats_url"], user="admin", password=up.context["users"]["admin"])
    try:
        await client.jetstream().publish("noetl.requests.execute", b"not a request")
    finally:
        await client.close()


@pytest.fixture
def named(up: Up, ctl: Ctl, done: dict[str, str]) -> dict[str, str]:
    """What commands need to have something to show: a letter, a context, a trigger."""
    if not ctl("dlq", "list", "-o", "json").json:
        asyncio.run(_bury(up))
    ctl("trigger", "apply", "-f", "t.yaml")
    ctl("schedule", "apply", "-f", "s.yaml")
    ctl("credential", "pg={}")
    (up.folder / "spare.yaml").write_text(CHILD.replace("views/child", "views/spare"))
    ctl("register", "spare.yaml")
    ctl("context", "add", "here", "--from", ".noetl/context.json")
    letter = wait_until(lambda: ctl("dlq", "list", "-o", "json").json, "a dead letter", WITHIN_S)[-1]["seq"]
    return {**done, "letter": str(letter)}


def test_json_is_as_documented(ctl: Ctl, named: dict[str, str]) -> None:
    in_read_model(ctl, {key: name for key, name in named.items() if key != "letter"})
    shapes, wrong = tree.shapes(), {}
    for typed, line in TYPED.items():
        ran = ctl(*line.format(**named).split(), "-o", "json")
        expected = exits.FAILED if typed == "retry-failed --wait" else exits.OK
        assert ran.code == expected, (typed, ran.err)
        if shapes[typed].startswith("`"):
            many, keys = tree.keys(shapes[typed])
            found = ran.json[0] if many else ran.json
            if isinstance(found, list) or found.keys() != keys:
                wrong[typed] = found
    assert wrong == {}


def test_the_json_of_every_documented_command_is_tested() -> None:
    """Here, or where ELSEWHERE says; of other commands some test asks for JSON."""
    texts = [file.read_text(encoding="utf-8") for file in ROOT.glob("tests/**/test_*.py")]
    untested = [
        typed for typed in tree.shapes().keys() - TYPED.keys() - ELSEWHERE.keys()
        if not any(", ".join(f'"{word}"' for word in typed.split()[:2] if word.islower()) in text and '"json"' in text
                   for text in texts)
    ]
    assert untested == []


def test_executions_are_chosen_by_labels_status_path_and_time(ctl: Ctl, done: dict[str, str]) -> None:
    in_read_model(ctl, done)
    good, bad, live = done["good"], done["bad"], done["live"]
    both = {good, live}
    assert listed(ctl, "-l", "run=good") & both == {good}
    assert both <= listed(ctl, "-l", "run in (good,live),team=data")
    assert both.isdisjoint(listed(ctl, "-l", "!run"))
    assert bad in listed(ctl, "-l", "run!=good,team", "--status", "failed")
    assert listed(ctl, "--path", "views/w*") & {*both, bad} == {live}
    assert listed(ctl, "--path", "views/_aits") == set()
    assert live in listed(ctl, "--status", "live", "--since", "1h")
    assert listed(ctl, "--since", "2999-01-01") == set()
    assert len(listed(ctl, "--limit", "1")) == 1


def test_describe_tells_the_whole_story(ctl: Ctl, done: dict[str, str]) -> None:
    found = ctl("describe", done["bad"], "-o", "json").json
    assert (found["status"], found["path"], found["labels"]) == ("failed", "views/flow", {"team": "data"})
    assert "@" in found["by"]
    assert [run["step"] for run in found["runs"]] == ["start", "each", "child", "last"]
    assert found["runs"][1]["loop"]["done"] == 2
    assert [(child["path"], child["status"]) for child in found["children"]] == [("views/child", "completed")]
    assert (found["place"]["step"], found["place"]["line"]) == ("last", 18)
    text = ctl("describe", done["bad"]).out
    assert "AssertionError: no (in step last, task last_task, line 18)" in text
    assert 'noetlctl events' in text


def test_logs_have_what_tasks_printed(ctl: Ctl, done: dict[str, str]) -> None:
    lines = [json.loads(line) for line in ctl("logs", done["good"], "--follow", "-o", "jsonl").out.splitlines()]
    assert ("start", "say", "stdout", "hello from python") in [
        (line["step"], line["task"], line["stream"], line["text"]) for line in lines]
    child = ctl("describe", done["good"], "-o", "json").json["children"][0]["execution_id"]
    printed = ctl("logs", child, "--printed").out.splitlines()
    assert [line.rpartition("| ")[2] for line in printed] == ["out", "err"]
    assert ctl("logs", done["good"], "--step", "last", "--printed").out == ""


def test_the_tail_of_a_log_is_its_last_lines_also_when_it_is_followed(ctl: Ctl, done: dict[str, str]) -> None:
    everything = ctl("logs", done["good"]).out.splitlines()
    assert len(everything) > 3
    assert ctl("logs", done["good"], "--tail", "3").out.splitlines() == everything[-3:]
    assert ctl("logs", done["good"], "-f", "--tail", "3").out.splitlines() == everything[-3:]
    assert ctl("logs", done["good"], "-f").out.splitlines() == everything
    assert ctl("logs", done["good"], "--tail", "0").out == ""
    assert [line["text"] for line in ctl("logs", done["good"], "--printed", "--tail", "1", "-o", "json").json] == [
        "hello from python"]


def test_a_noun_that_is_mistyped_is_not_looked_for_as_an_execution(ctl: Ctl) -> None:
    for typed, meant in (("executons", "executions"), ("Playbook", "playbooks"), ("pols", "pools")):
        ran = ctl("get", typed)
        assert (ran.code, f"did you mean `noetlctl get {meant}`?" in ran.err) == (exits.NOT_FOUND, True)
    assert "did you mean" not in ctl("get", "0123456789abcdef0123").err


def test_results_and_ctx_are_plain_values(ctl: Ctl, done: dict[str, str]) -> None:
    assert ctl("result", done["good"], "-r").out == "fine\n"
    assert ctl("result", done["good"], "--step", "start", "--path", "rows[0].name", "-r").out == "ada\n"
    assert ctl("result", done["good"], "--step", "each").json == [{"n": 1}, {"n": 2}]
    assert ctl("ctx", done["good"], "--at", "0").json == {}
    assert ctl("result", done["live"]).code == exits.NOT_FOUND


def test_a_key_that_was_used_is_the_same_execution(ctl: Ctl, done: dict[str, str]) -> None:
    again = ctl("execute", "views/flow", "--id", "key-1", "-o", "json").json
    assert again == {"execution_id": done["good"], "status": "duplicate"}


def test_watch_shows_children_and_ends_as_the_execution_does(ctl: Ctl, done: dict[str, str]) -> None:
    ran = ctl("watch", done["bad"])
    assert ran.code == exits.FAILED
    assert "✓ each 2/2" in ran.err
    late = ctl("watch", done["live"], "--timeout", "0.3")
    assert late.code == exits.TIMED_OUT


@pytest.mark.parametrize("command", ["describe", "watch", "logs", "events", "result", "ctx", "get", "cancel", "resume"])
def test_an_execution_nobody_knows_is_exit_code_7(ctl: Ctl, command: str) -> None:
    ran = ctl(command, "nosuch")
    assert (ran.code, ran.out) == (exits.NOT_FOUND, "")
    assert ran.err.startswith("noetlctl: no execution nosuch in the log")


def test_what_is_over_or_still_runs_is_a_conflict(ctl: Ctl, done: dict[str, str]) -> None:
    assert ctl("cancel", done["good"]).code == exits.CONFLICT
    assert ctl("retry-failed", done["live"]).code == exits.CONFLICT


@pytest.mark.usefixtures("done")
def test_many_at_once_have_a_row_each(ctl: Ctl) -> None:
    started = {ctl("execute", "views/waits", "-l", "batch=one", "-o", "name").out.strip() for _ in range(3)}
    wait_until(lambda: listed(ctl, "-l", "batch=one", "--status", "running"), "all run", WITHIN_S,
               so=lambda found: found == started)
    chosen = ("cancel", "-l", "batch=one", "--reason", "test")
    rehearsed = ctl(*chosen, "--dry-run", "-o", "json").json
    assert {(row["execution_id"], row["status"]) for row in rehearsed} == {(each, "would cancel") for each in started}
    unsure = ctl(*chosen)
    assert (unsure.code, "--yes" in unsure.err) == (exits.USAGE, True)
    ran = ctl(*chosen, "--yes", "--wait", "-o", "json")
    assert {(row["execution_id"], row["status"]) for row in ran.json} == {(each, "cancelled") for each in started}
    some = ctl("retry-failed", *started, "nosuch", "-o", "json")
    assert some.code == exits.ERROR
    assert sorted(row["status"] for row in some.json) == ["failed", "started", "started", "started"]
    assert {row["of"] for row in some.json} == {*started, "nosuch"}
    again = {row["execution_id"] for row in some.json if row["status"] == "started"}
    wait_until(lambda: listed(ctl, "-l", "batch=one", "--status", "live"), "the reruns keep the labels", WITHIN_S,
               so=lambda found: again <= found)
    assert ctl("cancel", *again, "--wait").code == exits.OK
    assert ctl("cancel", "-l", "batch=none").err == "no execution is meant\n"


def test_a_letter_is_replayed_mended_and_dropped(ctl: Ctl, named: dict[str, str]) -> None:
    assert ctl("dlq", "replay", named["letter"]).code == exits.INVALID
    ran = ctl("dlq", "replay", named["letter"], "--body", '{"path": "views/child"}', "--drop", "-o", "json")
    assert (ran.json["status"], ran.json["dropped"]) == ("started", True)
    assert ctl("watch", ran.json["execution_id"]).code == exits.OK
    assert ctl("dlq", "show", named["letter"]).code == exits.NOT_FOUND


@pytest.mark.usefixtures("done")
def test_get_watch_says_what_changes(up: Up) -> None:
    with subprocess.Popen([*COMMAND, "get", "executions", "--path", "views/waits", "--watch", "-o", "json"],
                          cwd=up.folder, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["path"] == "views/waits"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == exits.INTERRUPTED


@pytest.mark.usefixtures("done")
def test_a_dry_run_starts_nothing_and_says_what_would_be_refused(ctl: Ctl) -> None:
    assert ctl("execute", "views/nosuch", "--dry-run").code == exits.NOT_FOUND
    ran = ctl("execute", "views/flow", "--set", "fail=1", "-l", "x=y", "--dry-run", "-o", "json")
    assert (ran.json["workload"], ran.json["labels"]) == ({"fail": 1}, {"team": "data", "x": "y"})

"""What others wrote never reaches a terminal as control characters: every command that shows it, piped and on a
terminal, over executions full of them."""

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from services.cli.console import render, screen
from shared.runtime.service import logging
from shared.visible import line, visible
from tests.support.cli import COMMAND, Up, environment
from tests.support.paths import ROOT

# A clipboard, a title, a cleared screen, 8-bit sequences, hidden and painted text, a turned direction, a backspace.
HOSTILE = ("\x1b]52;c;ZXZpbA==\x07", "\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\x9d52;c;eA==\x9c", "\x1b[8mHIDE",
           "\x1b[31mPAINT", "\u202eevil\u202c", "\u2066evil\u2069", "safe\x08\x08\x08\x08", "\x7f", "\rOVER", "\x1bc",
           "in\u200bvi\u200csi\u200dble", "\u2060\ufeff", "soft\u00adhyphen", "\ttab")
EVIL = "".join(HOSTILE)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\u061c]")
TAB = re.compile("\t")
# On a terminal: colours of ours, and what rich draws progress with.
OURS = re.compile("\x1b\\[[0-9;]*m|\x1b\\[\\?25[lh]|\x1b\\[[0-9]*[AKG]|\x1b\\[2J\x1b\\[1;1H|\r")

PLAYBOOK = f"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: evil, path: evil, labels: {{ team: data }} }}
workload: {{ text: {json.dumps(EVIL)} }}
workflow:
  - step: start
    tool:
      - name: say
        kind: python
        args: {{ text: "{{{{ workload.text }}}}" }}
        code: |
          import sys
          print(text); print(text, file=sys.stderr)
          result = {{"text": text, text: [text, 1]}}
    next: {{ arcs: [{{ step: keep }}] }}
  - step: keep
    tool:
      - kind: noop
        args: {{ text: "{{{{ workload.text }}}}" }}
        spec:
          policy:
            rules: [{{ else: {{ then: {{ do: continue, set_ctx: {{ kept: "{{{{ workload.text }}}}" }} }} }} }}]
    next: {{ arcs: [{{ step: fail }}] }}
  - step: fail
    tool:
      kind: python
      args: {{ text: "{{{{ workload.text }}}}" }}
      code: "raise ValueError(text)"
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Up, str, str]]:
    """A stack with two executions that failed, each of them full of it."""
    up = Up(tmp_path_factory.mktemp("up"))
    try:
        up.wait()
        (up.folder / "evil.yaml").write_text(PLAYBOOK)
        _piped(up, "register", "evil.yaml")
        ids = [json.loads(_piped(up, "execute", "evil", "-o", "json").stdout)["execution_id"] for _ in range(2)]
        for each in ids:
            _piped(up, "watch", each)
        yield up, ids[0], ids[1]
    finally:
        up.stop()


def _piped(up: Up, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True, cwd=up.folder, env=environment(),
                          timeout=60, check=False)


def _on_terminal(up: Up, *command: str) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=up.folder,
                          env=environment(TERM="xterm-256color", COLUMNS="200")) as process:
        os.close(theirs)
        parts = []
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(ours, 65536):
                parts.append(part)
        process.wait(60)
    os.close(ours)
    return b"".join(parts).decode("utf-8", "replace").replace("\r\n", "\n")


END = "-- the end of a command --"
READS = [
    ("get", "{0}"), ("get", "{0}", "-o", "json"), ("get", "{0}", "-o", "yaml"), ("get",), ("get", "-o", "wide"),
    ("get", "playbooks"), ("describe", "{0}"), ("describe", "{0}", "-o", "json"), ("why", "{0}"), ("watch", "{0}"),
    ("logs", "{0}"), ("logs", "{0}", "-o", "jsonl"), ("events", "{0}"), ("events", "{0}", "-o", "json"),
    ("result", "{0}"), ("result", "{0}", "--step", "start"), ("ctx", "{0}"), ("ctx", "{0}", "-o", "yaml"),
    ("debug", "{0}"), ("trace", "{0}"), ("diff", "{0}", "{1}"), ("verify", "{0}"), ("verify", "--all"), ("doctor",),
    ("dlq", "list"), ("replay", "{0}", "--against", "evil.yaml"), ("get", EVIL), ("run", "evil.yaml"),
    ("validate", "evil.yaml"), ("rerun", "{0}", "--from", "fail", "--wait"),
]


# All of them in one process: starting Python is what takes long.
DRIVER = f"""
import json, sys
from services.cli import main
for args in json.load(open("commands.json")):
    try:
        main.main(args)
    except SystemExit:
        pass
    for stream in (sys.stdout, sys.stderr):
        print("{END}", file=stream, flush=True)
"""


def _each(text: str, commands: list[list[str]], times: int) -> Iterator[tuple[list[str], str]]:
    parts = text.split(f"{END}\n")
    assert len(parts) == times * len(commands) + 1, repr(text[-2000:])
    for at, part in enumerate(parts[:-1]):
        yield commands[at // times], part


def test_no_command_lets_them_through(stack: tuple[Up, str, str]) -> None:
    up, *ids = stack
    commands = [[each.format(*ids) if "{" in each else each for each in args] for args in READS]
    (up.folder / "commands.json").write_text(json.dumps(commands))
    command = [sys.executable, "-c", DRIVER]
    piped = subprocess.run(command, capture_output=True, text=True, cwd=up.folder, env=environment(), timeout=300,
                           check=True)
    for stream in (piped.stdout, piped.stderr):
        for args, text in _each(stream, commands, 1):
            assert CONTROL.search(text) is None, (args, text[:2000])
            assert TAB.search(text) is None, (args, text[:2000])
    shown = _on_terminal(up, *command)
    assert "\x1b[31mPAINT" not in shown
    assert TAB.search(shown) is None
    for args, text in _each(shown, commands, 2):
        assert CONTROL.search(OURS.sub("", text)) is None, (args, text[:2000])


def test_json_still_says_what_was_there(stack: tuple[Up, str, str]) -> None:
    up, first, _ = stack
    for command in (("result", first, "--step", "start"), ("events", first, "-o", "json"),
                    ("get", first, "-o", "json")):
        told = _texts(json.loads(_piped(up, *command).stdout))
        assert any(EVIL in each for each in told), command


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in _texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("text", [*HOSTILE, EVIL])
def test_what_is_shown_is_the_escape_of_json(text: str) -> None:
    shown = line(text)
    assert CONTROL.search(shown) is None
    assert json.loads(f'"{shown}"') == text


def test_lines_stay_where_there_are_lines() -> None:
    assert (visible("a\tb\nc\r\nd é 日本 😀"), line("a\nb\tc")) == ("a\tb\nc\nd é 日本 😀", "a\\nb\\tc")
    columns = [render.Column("A", "a"), render.Column("B", "b")]
    rows = render.table_lines([{"a": "x\nFAKE  ROW", "b": EVIL}], columns, "table")
    assert len(rows) == 2
    assert CONTROL.search("".join(rows)) is None


def test_nobody_else_can_give_a_style(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.delenv("NO_COLOR", raising=False)
    with screen.installed():
        print(screen.style("mine", fg="red"), "\x1b[31mtheirs\x1b[0m", "\ufdd00:31m\ufdd1")  # noqa: T201
    assert out.getvalue() == "\x1b[31mmine\x1b[0m \\u001b[31mtheirs\\u001b[0m \ufdd00:31m\ufdd1\n"


def test_commands_write_sequences_through_the_screen_alone() -> None:
    """Written as they are they would be shown as escapes."""
    around = re.compile(r"click\.(?:style|secho|clear)\(|(?<!screen\.control\()f?\"(?:\\r(?!\\n)|\\x1b|\\033)")
    for file in (ROOT / "services" / "cli").glob("*.py"):
        if file.name != "screen.py":
            assert around.findall(file.read_text()) == [], file.name


def test_a_value_goes_into_a_file_as_it_is(stack: tuple[Up, str, str]) -> None:
    up, first, _ = stack
    shown = subprocess.run([*COMMAND, "result", first, "--step", "start", "--path", "text", "--raw"],
                           capture_output=True, cwd=up.folder, env=environment(), timeout=60, check=True)
    assert shown.stdout.decode() == EVIL + "\n"


def test_logs_on_a_terminal_are_visible_too() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    before = structlog.get_config()
    out = Terminal()
    try:
        logging.configure("info", out)
        try:
            raise ValueError(EVIL)
        except ValueError:
            structlog.get_logger().exception("an event", text=EVIL, many=[EVIL], error=ValueError(EVIL))
    finally:
        structlog.configure(**before)
    text = out.getvalue()
    assert "an event" in text
    assert CONTROL.search(OURS.sub("", text)) is None

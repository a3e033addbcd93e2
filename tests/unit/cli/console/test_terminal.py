"""What is for terminals is on terminals alone: colours, bars, questions, lists that are drawn anew; completion."""

import asyncio
import io
import sys

import click
import pytest
import yaml
from click.shell_completion import BashComplete

from services.cli import main
from services.cli.commands.completion import SHELLS, VARIABLE
from services.cli.console import confirm, exits, live_table, progress, render, screen
from services.cli.console.exits import CliError
from services.cli.console.render import Column
from services.cli.executions import display
from shared.answers.history.summary import LoopProgress, StepSummary, Summary
from tests.support.cli import noetlctl

COLUMNS = (Column("NAME", "name"), Column("STATUS", "status", colour=True))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Enough(Exception):
    pass


def encoded(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace", write_through=True)


def written(stream: io.TextIOWrapper) -> bytes:
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()


@pytest.mark.parametrize(("encoding", "shown"), [
    ("ascii", b"+ a... -> b . \\u20ac\n"), ("latin-1", b"+ a... -> b \xb7 \\u20ac\n"),
    ("utf-8", "✓ a… → b · €\n".encode()),
])
def test_a_terminal_without_our_signs_is_shown_others(
    encoding: str, shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = encoded(encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    with screen.installed():
        click.echo("✓ a… → b · €")
    assert written(stream) == shown


@pytest.mark.parametrize("output", ["json", "yaml", "jsonl"])
def test_what_programs_read_means_the_same_in_any_encoding(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = encoded("ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    with screen.installed():
        render.value({"text": "✓ a… €"}, output)
    assert yaml.safe_load(written(stream)) == {"text": "✓ a… €"}


def test_a_tree_is_drawn_on_a_terminal_of_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = encoded("ascii")
    monkeypatch.setattr(sys, "stderr", stream)
    with screen.installed():
        shown = display.Tree(sys.stderr)
        summary = Summary("e1")
        summary.steps["start"] = StepSummary("start", status="done")
        shown.update(summary)
        shown.close()
    assert b"+ start" in written(stream)
    assert b"\\u" not in written(stream)


def loads(*lists: list[dict[str, str]]) -> live_table.Load:
    left = iter(lists)

    async def load() -> list[dict[str, str]]:
        try:
            return next(left)
        except StopIteration:
            raise Enough from None

    return load


def rows(**statuses: str) -> list[dict[str, str]]:
    return [{"name": name, "status": status} for name, status in statuses.items()]


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("table", ["NAME    STATUS", "a       running", "longer  running", "a       done", "b       failed"]),
        ("json", ['{"name": "a", "status": "running"}', '{"name": "longer", "status": "running"}',
                  '{"name": "a", "status": "done"}', '{"name": "b", "status": "failed"}']),
        ("name", ["a", "longer", "a", "b"]),
    ],
)
async def test_in_a_pipe_there_is_a_line_per_change(
    output: str, lines: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_table, "EVERY_S", 0.0)
    first = rows(a="running", longer="running")
    load = loads(first, first, rows(a="done", longer="running"), rows(a="done", longer="running", b="failed"))
    with pytest.raises(Enough):
        await live_table.watched(load, COLUMNS, output, "name")
    assert capsys.readouterr().out.splitlines() == lines


async def test_on_a_terminal_the_list_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(live_table, "EVERY_S", 0.0)
    with pytest.raises(Enough):
        await live_table.watched(loads(rows(a="running"), rows(a="done")), COLUMNS, "table", "name")
    before, _, after = out.getvalue().partition("\x1b[1A")  # the cursor goes up
    assert ("running" in before, "running" in after, "done" in after) == (True, False, True)


def test_a_status_has_a_colour_and_widths_do_not_count_it() -> None:
    title, first, second = render.table_lines(rows(a="done", b="odd"), COLUMNS, "table")
    assert (title, second) == ("NAME  STATUS", "b     odd")
    assert (first, click.unstyle(first)) == (f"a     {click.style('done', fg='green')}", "a     done")


@pytest.mark.parametrize(("environ", "coloured"), [({}, None), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, None)])
def test_no_color_turns_colours_off(
    environ: dict[str, str], coloured: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool | None] = []

    @click.command()
    @click.pass_context
    def look(ctx: click.Context) -> None:
        seen.append(ctx.color)

    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(main.Commands, "get_command", lambda *_: look)
    assert noetlctl("get") == exits.OK
    assert seen == [coloured]


def test_a_bar_is_for_terminals_and_for_several(monkeypatch: pytest.MonkeyPatch) -> None:
    for out, total in ((io.StringIO(), 5), (Terminal(), 1)):
        monkeypatch.setattr(sys, "stderr", out)
        with progress.bar("work", total) as done:
            done()
        assert out.getvalue() == ""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with progress.bar("work", 3) as done:
        done()
    assert "work" in shown.getvalue()


async def test_a_spinner_comes_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    ready, loop = asyncio.Event(), asyncio.get_running_loop()

    class Spun(Terminal):
        def write(self, text: str) -> int:
            if "reading" in text:
                loop.call_soon_threadsafe(ready.set)  # it is drawn by a thread
            return super().write(text)

    out = Spun()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(progress, "PATIENCE_S", 0.01)

    async def work() -> int:
        await ready.wait()
        return 7

    async with asyncio.timeout(30):
        assert await progress.patiently(work(), "reading") == 7
    assert "reading" in out.getvalue()


@pytest.mark.parametrize(("answer", "refused"), [("y\n", False), ("n\n", True)])
def test_a_terminal_is_asked(answer: str, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    if not refused:
        confirm.confirmed("drop it", yes=False)
        return
    with pytest.raises(CliError, match="nothing was done"):
        confirm.confirmed("drop it", yes=False)


def test_elsewhere_yes_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(CliError, match="this would drop it: add --yes") as refused:
        confirm.confirmed("drop it", yes=False)
    assert refused.value.code == exits.USAGE
    confirm.confirmed("drop it", yes=True)


def test_a_bar_of_a_loop_shows_what_is_done_and_what_failed() -> None:
    pieces = display.bar(LoopProgress(total=100, done=50, failed=1))
    assert [len(text) for text, _ in pieces[1:]] == [12, 1, 11]
    assert [style for _, style in pieces[1:]] == ["green", "red", "dim"]
    whole = display.bar(LoopProgress(total=3, done=3))
    assert [len(text) for text, _ in whole[1:]] == [display.BAR, 0, 0]


def test_children_are_shown_under_the_step_that_started_them() -> None:
    parent, child, out = Summary("p"), Summary("c"), io.StringIO()
    parent.steps, parent.children = {"call": StepSummary("call", 1, "waiting", task="t", wait="for c")}, {"c": "call"}
    child.path, child.status, child.steps = "sub/c", "running", {"s": StepSummary("s", 1, "running", task="x")}
    lines = display.Lines(out)
    lines.update(parent, {"c": child})
    lines.update(parent, {"c": child})
    assert out.getvalue().splitlines() == [
        "⏸ call t waits for c", "  sub/c: ▶ s x", "  sub/c:   c running", "  p pending"]
    drawn = Terminal()
    tree = display.choose(drawn)
    tree.update(parent, {"c": child})
    tree.close()
    assert "sub/c c running" in drawn.getvalue()


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_prints_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("completion", shell) == exits.OK
    assert VARIABLE in capsys.readouterr().out


def test_commands_options_and_contexts_complete_without_a_stack(
    monkeypatch: pytest.MonkeyPatch, tmp_path: str
) -> None:
    monkeypatch.setenv("NOETL_CONFIG", f"{tmp_path}/config.json")
    assert noetlctl("context", "add", "prod", "--url", "nats://x") == exits.OK
    shell = BashComplete(main.cli, {}, "noetlctl", VARIABLE)

    def found(words: list[str], incomplete: str) -> list[str]:
        return [item.value for item in shell.get_completions(words, incomplete)]

    assert {"rerun", "resume", "retry-failed"} <= set(found([], "re"))
    assert "--context" in found(["describe"], "--c")
    assert found(["describe", "--context"], "pr") == ["prod"]
    assert found(["context", "use"], "") == ["prod"]
    assert "apply" in found(["schedule"], "a")

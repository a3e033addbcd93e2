"""noetlctl logs: what tasks printed and what happened, line by line."""

from collections.abc import Callable, Iterable
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from services.cli.console import exits, render, screen, times
from services.cli.console.times import Moment
from services.cli.stack import context
from services.cli.stack.broker_away import Patience
from shared.events.run_index import in_brackets

if TYPE_CHECKING:
    from services.cli.executions.log_lines import Line, Teller
    from shared.events.record import Record


class Wanted(NamedTuple):
    step: str
    printed: bool
    since: datetime | None

    def takes(self, line: "Line") -> bool:
        if self.step and line.step != self.step:
            return False
        if self.since is not None and times.parsed(line.ts) < self.since:
            return False
        from shared.answers.history.failures import PRINTED  # late: with the engine's values

        return not self.printed or line.stream in PRINTED


@click.command("logs", epilog="Examples: noetlctl logs 4f1c… --step load --follow   "
               "noetlctl logs 4f1c… --printed -o jsonl")
@click.argument("execution")
@click.option("--step", default="", help="Of this step alone.")
@click.option("--printed", is_flag=True, help="What tasks printed alone, not what happened.")
@click.option("--since", type=Moment(), metavar="TIME", help="Since then: 2h ago, or 2026-11-16T10:00.")
@click.option("--follow", is_flag=True, help="Wait for more, until the execution is over.")
@render.option("table", "wide", "json", "yaml", "jsonl")
@context.option
def command(
    execution: str, step: str, printed: bool, since: datetime | None, follow: bool, output: str,
    context_file: Path | None,
) -> int:
    """Print what tasks printed and what happened, line by line.

    Python tasks and programs are heard when a task ends: stdout and stderr are in what it reports to the log.
    """
    from services.cli.console import run_async

    if follow and output in ("json", "yaml"):
        raise click.UsageError("--follow prints line by line: take -o table or jsonl")
    return run_async.run(_logs(execution, Wanted(step, printed, since), follow, output, context_file))


async def _logs(execution_id: str, wanted: Wanted, follow: bool, output: str, context_file: Path | None) -> int:
    from services.cli.executions import logbook, requests
    from services.cli.executions.log_lines import Teller
    from services.cli.why import steps
    from shared.answers.history.summary import Summary

    settings = context.find(context_file)
    async with context.connected(settings, Patience() if follow else None) as bus:
        await requests.expect(bus, execution_id, settings.partitions)
        if wanted.step:
            await steps.expect(await logbook.read(bus, execution_id, settings.partitions), wanted.step)
        if not follow:
            book = await logbook.read(bus, execution_id, settings.partitions)
            teller = Teller(book.values)
            found = [line for seq, record in book.entries for line in await book.ask(_told(teller, seq, record))]
            _print(filter(wanted.takes, found), output)
            return exits.OK
        summary = Summary(execution_id)
        book = logbook.Logbook(bus, execution_id, [])
        teller = Teller(book.values)
        async with aclosing(logbook.follow(bus, execution_id, settings.partitions)) as batches:
            async for batch in batches:
                for seq, record in batch:
                    _print(filter(wanted.takes, await book.ask(_told(teller, seq, record))), output)
                    summary.apply(record)
                if summary.over:
                    break
    return exits.OK


def _told(teller: "Teller", seq: int, record: "Record") -> "Callable[[], list[Line]]":
    return lambda: teller.lines(seq, record)


def _print(lines: "Iterable[Line]", output: str) -> None:
    from msgspec import to_builtins

    if render.is_text(output):
        for line in lines:
            click.echo(_text(line, output))
    else:
        render.rows([to_builtins(line) for line in lines], (), output, "seq")


def _text(line: "Line", output: str) -> str:
    index = in_brackets(line.iteration)
    task = f"/{line.task}" + (f"#{line.attempt}" if line.attempt > 1 else "") if line.task else ""
    place = f"{line.step}{index}{task}" or "-"
    ts = line.ts if output == "wide" else times.parsed(line.ts).astimezone().strftime("%H:%M:%S.%f")[:-3]
    mark = screen.style("|", fg="green" if line.stream in ("stdout", "output") else "red") if line.stream else "·"
    return f"{screen.style(ts, dim=True)} {screen.style(f'{place:<24}', fg='cyan')} {mark} {line.text}"

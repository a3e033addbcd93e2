"""noetlctl logs: what tasks printed and what happened, line by line."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from services.cli.console import execution_ids, exits, interruption, render, screen, times
from services.cli.console.times import Moment
from services.cli.stack import context
from services.cli.stack.broker_away import Patience
from shared.events.run_index import in_brackets

if TYPE_CHECKING:
    from services.cli.executions.log_lines import Line, Teller
    from shared.bus.ports import Bus
    from shared.events.record import Record


class Wanted(NamedTuple):
    step: str
    printed: bool
    since: datetime | None
    tail: int | None = None

    def takes(self, line: "Line") -> bool:
        if self.step and line.step != self.step:
            return False
        if self.since is not None and times.parsed(line.ts) < self.since:
            return False
        from shared.engine.values.printed import PRINTED  # late: with the engine's values

        return not self.printed or line.stream in PRINTED

    def last(self, lines: "Iterable[Line]") -> "Iterable[Line]":
        return lines if self.tail is None else deque(lines, self.tail)


@click.command("logs", epilog="Examples: noetlctl logs 4f1c… --step load -f --tail 20   "
               "noetlctl logs 4f1c… --printed -o jsonl")
@execution_ids.argument
@click.option("--step", default="", help="Of this step alone.")
@click.option("--printed", is_flag=True, help="What tasks printed alone, not what happened.")
@click.option("--since", type=Moment(), metavar="TIME", help="Since then: 2h ago, or 2026-11-16T10:00.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until the execution is over.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="The last N lines, and with -f what follows.")
@render.option("table", "wide", "json", "yaml", "jsonl")
@context.option
def command(
    execution: str, step: str, printed: bool, since: datetime | None, follow: bool, tail: int | None, output: str,
    context_file: Path | None,
) -> int:
    """Print what tasks printed and what happened, line by line.

    Python tasks and programs are heard when a task ends, or is cut short: stdout and stderr are in what it reports to
    the log. Of those that run, the last lines are shown, without -f.
    """
    from services.cli.console import run_async

    if follow and output in ("json", "yaml"):
        raise click.UsageError("--follow prints line by line: take -o table or jsonl")
    return run_async.run(_logs(execution, Wanted(step, printed, since, tail), follow, output, context_file))


async def _logs(execution_id: str, wanted: Wanted, follow: bool, output: str, context_file: Path | None) -> int:
    from services.cli.executions import logbook, requests
    from services.cli.executions.log_lines import Teller
    from services.cli.why import steps
    from shared.answers.history.summary import Summary

    settings = context.find(context_file)
    async with context.connected(settings, Patience() if follow else None) as bus:
        standing = await requests.expect(bus, execution_id, settings.partitions)
        if wanted.step:
            await steps.expect(await logbook.read(bus, execution_id, settings.partitions), wanted.step)
        if not follow:
            book = await logbook.read(bus, execution_id, settings.partitions)
            teller = Teller(book.values)
            found = [line for seq, record in book.entries for line in await book.ask(_told(teller, seq, record))]
            found += await _under_way(bus, execution_id) if standing != "over" else []
            _print(wanted.last(filter(wanted.takes, found)), output)
            return exits.OK
        known = (await logbook.read(bus, execution_id, settings.partitions)).entries if wanted.tail is not None else []
        held, until = deque["Line"](maxlen=wanted.tail), known[-1][0] if known else 0  # printed when all of it is read
        summary = Summary(execution_id)
        book = logbook.Logbook(bus, execution_id, [])
        teller = Teller(book.values)
        following = aclosing(logbook.follow(bus, execution_id, settings.partitions))
        with interruption.note(f"{execution_id} goes on"):
            async with following as batches:
                async for batch in batches:
                    for seq, record in batch:
                        held.extend(filter(wanted.takes, await book.ask(_told(teller, seq, record))))
                        if seq >= until:
                            _print(held, output)
                            held = deque()
                        summary.apply(record)
                    if summary.over:
                        break
    return exits.OK


async def _under_way(bus: "Bus", execution_id: str) -> "list[Line]":
    from services.cli.executions.log_lines import under_way
    from shared.events.stamp import stamp
    from shared.runtime.stores import heartbeats

    says = (each for beat in (await heartbeats.read_all(bus)).values() for each in beat.says)
    return list(under_way((each for each in says if each.execution_id == execution_id), stamp(await bus.time())))


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
    ts = line.ts if output == "wide" else times.shown(line.ts, exact=True)
    mark = screen.style("|", fg="green" if line.stream in ("stdout", "output") else "red") if line.stream else "·"
    return f"{screen.style(ts, dim=True)} {screen.style(f'{place:<24}', fg='cyan')} {mark} {line.text}"

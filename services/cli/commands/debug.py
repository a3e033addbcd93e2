"""noetlctl debug: the state of an execution at any point of its log, and expressions in it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import execution_ids, exits, render
from services.cli.console.exits import CliError
from services.cli.stack import context

if TYPE_CHECKING:
    from services.cli.executions.debugger import Debugger


@click.command("debug", epilog="Examples: noetlctl debug 4f1c… --at '#12'   "
               "noetlctl debug 4f1c… --at 2026-03-01T10:00:00Z --run fetch:2 --eval '{{ _prev.total }}'")
@execution_ids.argument
@click.option("--at", metavar="SEQ|#N|TIME", help="A sequence of the log, the Nth record, or a time; the last record "
              "unless given.")
@click.option("--eval", "expression", metavar="EXPR", help="Print the value of an expression there, and nothing else.")
@click.option("--run", metavar="RUN[.INDEX]",
              help="See what the tasks of this run see: fetch:2, or save:1.7 for an iteration.")
@click.option("-i", "--interactive", is_flag=True, help="Read commands from stdin: n p g s r e u q h.")
@render.option("text", "json", "yaml")
@context.option
@click.pass_context
def command(
    ctx: click.Context, execution: str, at: str | None, expression: str | None, run: str | None, interactive: bool,
    output: str, context_file: Path | None,
) -> int:
    """Show the state of an execution at any point of its log.

    Tokens, runs, loops, waits, ctx and results as they were, the record there, and what router and scheduler decide
    next. On a terminal, without --eval and -o, it steps back and forth.
    """
    from services.cli.console import run_async

    plain = expression is None and ctx.get_parameter_source("output") is click.core.ParameterSource.DEFAULT
    stepping = interactive or (plain and sys.stdin.isatty() and sys.stdout.isatty())
    return run_async.run(_debug(execution, at, expression, run, stepping, output, context_file))


async def _debug(
    execution: str, at: str | None, expression: str | None, run: str | None, stepping: bool, output: str,
    context_file: Path | None,
) -> int:
    from services.cli.executions import logbook
    from services.cli.executions.debugger import Debugger

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        debugger = Debugger(await logbook.read(bus, execution, settings.partitions))
        debugger.use(run)
        if at is not None:
            debugger.go(at)
        if stepping:
            await _step(debugger)
        elif expression is not None:
            _print_value(await debugger.value(expression), output)
        else:
            found = await debugger.state()
            render.document(found, output, "execution_id", lambda: click.echo(debugger.text(found)))
    return exits.OK


def _print_value(value: object, output: str) -> None:
    render.value(value, "yaml" if output == "yaml" else "json")


async def _step(debugger: "Debugger") -> None:
    """A line is a command. What is wrong with it is said, and the next one is read."""
    from services.cli.console.line_input import Typed
    from services.cli.executions.debugger import PROMPT

    typed = Typed()
    click.echo(await debugger.answer("s"))
    while True:
        if sys.stdin.isatty():
            click.echo(PROMPT, nl=False, err=True)
        line = await typed.line()
        if line is None or line.strip() in ("q", "quit"):
            return
        try:
            answer = await debugger.answer(line.strip())
        except CliError as error:
            click.echo(f"noetlctl: {error}", err=True)
            continue
        if answer:
            click.echo(answer)

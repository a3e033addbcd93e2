"""noetlctl: commands are imported when they are used, so that `--help` is quick."""

import importlib
import os
import signal
import sys
import traceback
from contextlib import nullcontext
from typing import TYPE_CHECKING, NoReturn

import click

from services.cli.console import exits, screen
from services.cli.console.exits import CliError
from shared.errors import NoetlError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "run": "Run a playbook on a stack of its own and show the result.",
    "validate": "Say everything that is wrong with a playbook.",
    "test": "Run the tests of playbooks, without a server.",
    "migrate": "Write the canonical source of a playbook; also called fmt.",
    "init": "Write a playbook that runs, a test that passes, and a job for CI.",
    "graph": "Draw the steps and arcs of a playbook.",
    "explain": "Explain a key, a tool kind or a code.",
    "schema": "Print the JSON Schema of playbooks, or of their tests.",
    "up": "Start the whole stack and keep it running.",
    "register": "Store a playbook in the catalogue.",
    "playbook": "Versions in the catalogue: history, diff, rollback, delete.",
    "execute": "Start an execution of a registered playbook.",
    "get": "Show an execution, or list executions, playbooks, schedules, triggers, credentials, pools or workers.",
    "describe": "Show everything the log says about an execution.",
    "why": "Say why an execution is not running.",
    "watch": "Watch an execution to its end.",
    "logs": "Print what tasks printed and what happened, line by line.",
    "result": "Print the result of an execution or of a step.",
    "ctx": "Print the context of an execution, now or at an earlier point.",
    "cancel": "Stop an execution and everything it started.",
    "pause": "Let nothing new start in an execution.",
    "resume": "Let a paused execution go on.",
    "rerun": "Start a new execution from a step of an earlier one, or from what failed in it.",
    "retry-failed": "Run what failed in an execution again, as a new execution.",
    "replay": "Run recorded outcomes through an edited playbook, without calling a tool.",
    "debug": "Show the state of an execution at any point of its log.",
    "signal": "Give an execution the signal it waits for.",
    "events": "Print the events of an execution.",
    "verify": "Prove from the log that an execution is right.",
    "diff": "Compare two executions.",
    "trace": "Show where the time of an execution went.",
    "schedule": "Run playbooks at their times: cron and interval schedules.",
    "trigger": "Start executions by messages of a NATS subject.",
    "pool": "Worker pools: how many workers, whether they get work, how they stand.",
    "credential": "Store a credential for tools to use.",
    "dlq": "See, replay or drop what no service could use.",
    "context": "Name the stacks you work with, and say which one is in use.",
    "completion": "Print the script that completes commands in a shell.",
    "admin": "Prepare a broker, back up, restore, rebuild the read model, remove what is old.",
    "doctor": "Say what is right and what is wrong with a stack, and what to do about it.",
}
ALIASES = {"fmt": "migrate"}
COMPLETE = "_NOETLCTL_COMPLETE"  # set by the scripts of `completion`
GAP = "   "  # between examples of a command


class Commands(click.Group):
    """`services/cli/commands/<name>.py` holds `command`; its one line of help stands in the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        name = ALIASES.get(name, name)
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"services.cli.commands.{name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        _lay_out(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], [*COMMANDS, *ALIASES], n=1)
            if near and "Did you mean" not in error.message:
                raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from None
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """No command is imported to complete its name."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _lay_out(command: click.Command) -> None:
    """Several examples, three spaces apart, get a line each."""
    head, colon, examples = (command.epilog or "").partition(": ")
    if GAP in examples:
        command.epilog = "\b\n" + "\n  ".join([head + colon.rstrip(), *examples.split(GAP)])
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _lay_out(each)


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: noetlctl run examples/hello.yaml\n\n"
    "Exit codes: 0 done, 1 error, 2 usage, 3 invalid playbook, 4 execution failed, 5 cancelled, "
    "6 timed out, 7 not found, 8 conflict, 130 interrupted.",
)
@click.version_option(package_name="noetl-jetstream", message="%(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run playbooks on NATS JetStream."""
    ctx.color = False if os.environ.get("NO_COLOR") else None  # None: on a terminal alone


def main(args: list[str] | None = None) -> NoReturn:
    with nullcontext() if os.environ.get(COMPLETE) else screen.installed():  # a shell is told in bytes
        try:
            code = exit_code(args)
            _ignore_signals()
        except KeyboardInterrupt:  # another one, while the first was answered
            _ignore_signals()
            code = exits.INTERRUPTED
    sys.exit(code)


def _ignore_signals() -> None:
    """It is decided how the process ends, which takes Python a moment."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def exit_code(args: list[str] | None) -> int:
    try:
        return int(cli.main(args, prog_name="noetlctl", standalone_mode=False) or exits.OK)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted", exits.INTERRUPTED)
    except CliError as error:
        return _say(str(error), error.code)
    except screen.ReaderGone:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # there is nothing to flush
        return exits.OK
    except (NoetlError, OSError) as error:
        return _say(str(error), exits.ERROR)
    except Exception as error:
        if os.environ.get("NOETL_LOG_LEVEL") == "debug":
            traceback.print_exc()
        return _say(f"internal error: {error!r} (NOETL_LOG_LEVEL=debug shows where)", exits.ERROR)


def _say(message: str, code: int) -> int:
    click.echo(f"noetlctl: {message}", err=True)
    return code

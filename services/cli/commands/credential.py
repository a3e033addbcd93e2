"""noetlctl credential: what `auth: NAME` of a task resolves to."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, options, render
from services.cli.console.confirm import confirmed
from services.cli.console.exits import CliError
from services.cli.playbooks import inputs
from services.cli.stack import completions, context

if TYPE_CHECKING:
    from shared.bus.ports import Bus

def _alone(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> str:
    """One credential. What is too much is a value too, so it is not shown, as click would."""
    if len(given) > 1:
        raise click.UsageError("one credential at a time: NAME=JSON or NAME=@FILE, in quotes if it has spaces")
    return given[0]


ASSIGNMENT = click.argument("assignment", metavar="NAME=JSON|NAME=@FILE", nargs=-1, required=True, callback=_alone)
MAX_USERS = 5


class Assignments(click.Group):
    """`NAME=JSON` where a command would stand is `set NAME=JSON`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, ["set", *args] if "=" in args[0] else args)


@click.group("credential", cls=Assignments, subcommand_metavar="NAME=JSON|NAME=@FILE | COMMAND …",
             epilog="Examples: noetlctl credential pg=@pg.json   noetlctl get credentials")
def command() -> None:
    """Store a credential for tools to use, replace its value, delete it.

    NAME=JSON stores it; one that is stored is replaced.
    """


@command.command("set", epilog="Example: noetlctl credential set pg=@pg.json")
@ASSIGNMENT
@render.option()
@context.option
def set_(assignment: str, output: str, context_file: Path | None) -> int:
    """Store a credential; a stored one is replaced."""
    from services.cli.console import run_async

    name, value = inputs.credential(assignment)
    return run_async.run(_store(name, value, output, context_file))


async def _store(name: str, value: dict[str, Any], output: str, context_file: Path | None) -> int:
    from shared.runtime.stores import credentials

    async with context.connected(context.find(context_file)) as bus:
        status = "replaced" if await credentials.store(bus, name, value) else "stored"
    shown = {"name": name, "status": status}
    render.document(shown, output, "name", lambda: click.echo(f"{status} credential {name}"))
    return exits.OK


@command.command("rotate", epilog="Examples: noetlctl credential rotate pg=@pg.json   "
                 "noetlctl credential rotate pg=@password.json --keep")
@ASSIGNMENT
@click.option("--keep", is_flag=True, help="Fields that are not given stay as they are.")
@render.option()
@context.option
def rotate(assignment: str, keep: bool, output: str, context_file: Path | None) -> int:
    """Give a stored credential another value, and say which fields changed.

    Calls that begin from now on use it; those that run keep what they were given. Let the former value be accepted on
    the other side until they are over. Exit code 7: there is no such credential.
    """
    from services.cli.console import run_async

    name, value = inputs.credential(assignment)
    return run_async.run(_rotate(name, value, keep, output, context_file))


async def _rotate(name: str, value: dict[str, Any], keep: bool, output: str, context_file: Path | None) -> int:
    from shared.errors import Conflict
    from shared.runtime.stores import credentials

    async with context.connected(context.find(context_file)) as bus:
        try:
            changed = await credentials.rotate(bus, name, value, keep=keep)
        except credentials.NotStored as error:
            raise CliError(str(error), exits.NOT_FOUND) from None
        except Conflict:
            raise CliError(f"credential {name} was changed by someone else meanwhile", exits.CONFLICT) from None
    shown = {"name": name, "status": "rotated" if changed else "unchanged", "changed": changed}
    what = f": {', '.join(changed)}" if changed else ": it has this value already"
    render.document(shown, output, "name", lambda: click.echo(f"{shown['status']} credential {name}{what}"))
    return exits.OK


@command.command("delete", epilog="Example: noetlctl credential delete pg")
@click.argument("name", shell_complete=completions.credentials)
@options.yes
@render.option()
@context.option
def delete(name: str, yes: bool, output: str, context_file: Path | None) -> int:
    """Delete a credential. Its value is gone for good, and calls that name it fail from now on."""
    from services.cli.console import run_async

    return run_async.run(_delete(name, yes, output, context_file))


async def _delete(name: str, yes: bool, output: str, context_file: Path | None) -> int:
    from shared.bus import topology
    from shared.runtime.stores import credentials

    async with context.connected(context.find(context_file)) as bus:
        if not yes and credentials.NAME.fullmatch(name) and await bus.kv_get(topology.KEYCHAIN, name) is not None:
            confirmed(f"delete credential {name}{await _users(bus, name)}", yes)
        try:
            await credentials.delete(bus, name)
        except (credentials.NotStored, credentials.BadName) as error:
            raise CliError(str(error), exits.NOT_FOUND) from None
    shown = {"name": name, "status": "deleted"}
    render.document(shown, output, "name", lambda: click.echo(f"deleted credential {name}"))
    return exits.OK


async def _users(bus: "Bus", name: str) -> str:
    """Registered playbooks whose latest version names it."""
    from services.cli.playbooks import catalogue
    from shared.dsl.check.credentials import named

    users = [path async for path, plan in catalogue.latest_plans(bus) if name in named(plan)]
    more = f" and {len(users) - MAX_USERS} more" if len(users) > MAX_USERS else ""
    return f", which {', '.join(users[:MAX_USERS])}{more} would miss" if users else ""

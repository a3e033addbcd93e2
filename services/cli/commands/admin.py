"""noetlctl admin: what is done to a stack as a whole. `admin_<name>.py` beside it holds each command."""

import importlib

import click

COMMANDS = {
    "bootstrap": "Make streams, buckets, consumers and pools on a broker of your own.",
    "backup": "Write the log, and what cannot be derived from it, into a folder.",
    "restore": "Take a backup back into an empty broker.",
    "rebuild-projection": "Write the read model anew from the log.",
    "retention": "Say how long results, the read model, requests and dead letters are kept.",
    "purge": "Remove the results and details of executions that ended long ago.",
    "nats-auth": "Accounts, users and their keys for a NATS of your own.",
}


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"services.cli.commands.admin_{name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command("admin", cls=Commands, epilog="Example: noetlctl admin backup /backups/monday")
def command() -> None:
    """Prepare a broker, back up, restore, rebuild the read model, remove what is old."""

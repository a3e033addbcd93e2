"""Before something is done that cannot be undone, or to many: a question on a terminal, `--yes` elsewhere."""

import sys

import click

from services.cli.console import exits
from services.cli.console.exits import CliError


def confirmed(what: str, yes: bool, hint: str = "") -> None:
    """`what` is what would be done. CliError when it is not to be."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CliError(f"this would {what}: add --yes{hint}", exits.USAGE)
    if not click.confirm(f"{what}?", err=True):
        raise CliError("nothing was done")

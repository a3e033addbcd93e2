"""Options that several commands share."""

from pathlib import Path

import click

payload = click.option(
    "--payload", metavar="JSON|@FILE|-", help="The request payload, merged over the playbook's workload."
)
sets = click.option("--set", "sets", multiple=True, metavar="K=V", help="One payload value; a.b=v goes deeper.")
files = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The document; may be repeated.",
)
path = click.option("--path", default="", metavar="PATH", help="A part of the value: rows[0].name.")
raw = click.option("-r", "--raw", is_flag=True, help="Text as it is, without quotes; the rest in one line.")
dry_run = click.option("--dry-run", is_flag=True, help="Check everything and say what would be done; change nothing.")
yes = click.option("-y", "--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")
timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Give up after so many seconds.",
)

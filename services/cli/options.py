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
output = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print.",
)
timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Give up after so many seconds.",
)

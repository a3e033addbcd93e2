"""noetlctl run: its command line; `services/cli/executions/run_once.py` does the work."""

from pathlib import Path

import click

from services.cli.console import options, render
from services.cli.playbooks import inputs


@click.command("run", epilog="Example: noetlctl run examples/hello.yaml --set greeting=Hi -o json")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--with", "others", multiple=True, metavar="FILE", type=click.Path(path_type=Path),
              help="A playbook that this one calls; may be given again.")
@options.payload
@options.sets
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="Keep the log and a read model here.")
@click.option(
    "--credential",
    "credentials",
    multiple=True,
    metavar="NAME=JSON|@FILE",
    help="What `auth: NAME` resolves to.",
)
@render.option()
@options.timeout
def command(
    file: Path,
    others: tuple[Path, ...],
    payload: str | None,
    sets: tuple[str, ...],
    folder: Path | None,
    credentials: tuple[str, ...],
    output: str,
    timeout: float | None,
) -> int:
    """Run a playbook on a stack of its own and show the result.

    Progress goes to stderr, the result to stdout.
    """
    asked = inputs.payload(payload, sets)
    known = dict(inputs.credential(text) for text in credentials)
    from services.cli.console import run_async
    from services.cli.executions import run_once  # late: `--help` does without the engine

    return run_async.run(run_once.run(run_once.Wish(file, others, asked, known, folder, output, timeout, sets)))

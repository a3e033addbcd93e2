"""noetlctl validate: every diagnostic of a playbook, errors and warnings."""

from pathlib import Path

import click

from services.cli import exits, playbooks


@click.command("validate")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print.")
def command(file: Path, output: str) -> int:
    """Say everything that is wrong with a playbook. Exits 3 when it cannot run."""
    checked = playbooks.check(file)
    if output == "json":
        click.echo(playbooks.as_json(checked))
    else:
        playbooks.report(checked)
        if checked.plan is not None:
            click.echo(f"{file}: valid, {len(checked.plan.steps)} steps, path {checked.plan.path}")
    return exits.OK if checked.plan is not None else exits.INVALID

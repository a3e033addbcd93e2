"""noetlctl validate: every diagnostic of one or several playbooks, errors and warnings."""

from pathlib import Path

import click

from services.cli import exits


@click.command("validate")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Take the canonical form only, not the formal dialect.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "sarif"]), default="text", show_default=True,
    help="How to print.",
)
def command(files: tuple[Path, ...], strict: bool, output: str) -> int:
    """Say everything that is wrong with a playbook. Exits 3 when one cannot run."""
    from services.cli import playbooks, sarif  # late: `--help` does without the compiler

    checked = {file: playbooks.check(file, strict=strict) for file in files}
    if output == "json":
        click.echo(playbooks.as_json(*checked.values()))
    elif output == "sarif":
        click.echo(sarif.render(diagnostic for each in checked.values() for diagnostic in each.diagnostics))
    else:
        for file, each in checked.items():
            playbooks.report(each)
            if each.plan is not None:
                click.echo(f"{file}: valid, {len(each.plan.steps)} steps, path {each.plan.path}")
    return exits.OK if all(each.plan is not None for each in checked.values()) else exits.INVALID

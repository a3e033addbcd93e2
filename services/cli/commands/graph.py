"""noetlctl graph: the workflow of a playbook as a picture."""

from pathlib import Path

import click

from services.cli.console import exits


@click.command("graph", epilog="Example: noetlctl graph examples/hello.yaml -o svg > hello.svg")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Choice(["mermaid", "dot", "svg"]), default="mermaid", show_default=True,
    help="How to draw.",
)
def command(file: Path, output: str) -> int:
    """Draw the steps and arcs of a playbook."""
    from services.cli.playbooks import playbook_file  # late: `--help` does without the compiler
    from shared.dsl.authoring import diagram, diagram_svg

    draw = {"mermaid": diagram.mermaid, "dot": diagram.dot, "svg": diagram_svg.svg}[output]
    click.echo(draw(playbook_file.valid(file).plan))
    return exits.OK

"""noetlctl schema: JSON Schema of playbooks, for editors."""

import json

import click

from services.cli import exits


@click.command("schema", epilog="Example: noetlctl schema > noetl.schema.json")
def command() -> int:
    """Print the JSON Schema of playbooks."""
    click.echo(text(), nl=False)
    return exits.OK


def text() -> str:
    from shared.dsl.schema import schema  # late: `--help` does without the compiler
    from shared.tools import registry

    return json.dumps(schema(registry.specs()), indent=1, ensure_ascii=False) + "\n"

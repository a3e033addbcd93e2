"""noetlctl schema: JSON Schema of playbooks and of their tests, for editors."""

import json

import click

from services.cli.console import exits, screen

KINDS = ("playbook", "test")


@click.command("schema", epilog="Example: noetlctl schema --kind test > noetl.test.schema.json")
@click.option("--kind", type=click.Choice(KINDS), default=KINDS[0], show_default=True, help="Of which documents.")
def command(kind: str) -> int:
    """Print the JSON Schema of playbooks, or of their tests."""
    click.echo(text(kind), nl=False)
    return exits.OK


def text(kind: str = KINDS[0]) -> str:
    from shared.dsl.authoring.schema import schema, schema_of_tests  # late: `--help` does without the compiler
    from shared.tools import registry

    found = schema_of_tests() if kind == "test" else schema(registry.specs())
    return json.dumps(found, indent=1, ensure_ascii=not screen.takes_unicode()) + "\n"

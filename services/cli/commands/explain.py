"""noetlctl explain: the documentation of a key, a tool kind or a diagnostic code."""

import click

from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.stack import completions


@click.command("explain", epilog="Example: noetlctl explain step.spec.policy.admit")
@click.argument("path", default="", shell_complete=completions.topics)
def command(path: str) -> int:
    """Explain a key, a tool kind or a code.

    PATH is a key such as step.spec.policy.admit or metadata.name, a kind such as http or http.url, or a
    code such as DSL904. Without it, the keys of a playbook are listed.
    """
    from shared.dsl.authoring import explain  # late: `--help` does without the compiler
    from shared.tools import registry

    try:
        click.echo(explain.explain(path, registry.specs()))
    except explain.NoSuchKey as error:
        raise CliError(str(error), exits.USAGE) from None
    return exits.OK

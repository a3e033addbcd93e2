"""noetlctl completion: what a shell completes; names of a stack are looked up, if it answers at once."""

import click

from services.cli.console import exits

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_NOETLCTL_COMPLETE"


@click.command("completion", epilog='Example: eval "$(noetlctl completion bash)"')
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print the script that completes commands in a shell.

    Put its evaluation into the start-up file of the shell; for fish, save it in ~/.config/fish/completions.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None, f"click knows no {shell}"
    click.echo(found(click.get_current_context().find_root().command, {}, "noetlctl", VARIABLE).source())
    return exits.OK

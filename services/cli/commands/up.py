"""noetlctl up: its command line; `services/cli/stack/keeper.py` does the work."""

from pathlib import Path

import click

from services.cli.stack.context import DEFAULT_FOLDER

DEFAULT_PORT = 4222


@click.command("up", epilog="Example: noetlctl up --pool default --pool gpu")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Where the stack keeps its data, logs and context file.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port of the NATS server on loopback; 0 takes a free one.",
)
@click.option("--pool", "pools", multiple=True, help="A worker pool; may be repeated (default: default).")
def command(folder: Path, port: int, pools: tuple[str, ...]) -> int:
    """Start the whole stack and keep it running until Ctrl-C or SIGTERM.

    Every service is a process of its own; one that dies is started again.
    """
    from services.cli.console import exits, run_async
    from services.cli.stack import keeper  # late: `--help` does without the engine

    code = run_async.run(keeper.keep(folder, port, tuple(dict.fromkeys(pools)) or ("default",)))
    return exits.OK if code == exits.INTERRUPTED else code  # being stopped is how it ends well

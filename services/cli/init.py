"""noetlctl init: a playbook to begin with, and the schema its editor header names."""

from pathlib import Path

import click

from services.cli import exits
from services.cli.exits import CliError
from services.cli.schema import text as schema_text

PLAYBOOK = """\
# yaml-language-server: $schema=./{schema}
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: {name}
  path: {name}
workload:
  who: world
workflow:
  - step: start
    tool:
      - name: greet
        kind: python
        args:
          who: "{{{{ workload.who }}}}"
        code: |
          result = f"Hello, {{who}}!"
    next:
      arcs:
        - step: end
  - step: end
"""


@click.command("init", epilog="Example: noetlctl init orders")
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Where to write; here unless given.",
)
def command(name: str, folder: Path) -> int:
    """Write a playbook that runs, with a schema for editors."""
    from shared.dsl.reader import NAME_FIX, is_name  # late: `--help` does without the compiler
    from shared.dsl.schema import FILE

    if not is_name(name):
        raise CliError(f"{name!r} is not a name for a playbook: {NAME_FIX}", exits.USAGE)
    file = folder / f"{name}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(PLAYBOOK.format(schema=FILE, name=name))
    except FileExistsError:
        raise CliError(f"{file} exists already; choose another name", exits.USAGE) from None
    (folder / FILE).write_text(schema_text(), encoding="utf-8")
    click.echo(f"wrote {file} and {folder / FILE}; try: noetlctl run {file}")
    return exits.OK

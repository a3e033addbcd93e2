"""noetlctl migrate: the canonical source of playbooks, shown, written or checked."""

from pathlib import Path

import click

from services.cli.console import exits, screen
from services.cli.console.exits import CliError


@click.command("migrate", epilog="Example: noetlctl migrate old.yaml --write")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--write", is_flag=True, help="Rewrite the files.")
@click.option("--check", is_flag=True, help="Write nothing; exit 3 when a file would change.")
def command(files: tuple[Path, ...], write: bool, check: bool) -> int:
    """Write the canonical source of a playbook; also called fmt. Exits 3 when one is not valid."""
    if write and check:
        raise CliError("--write and --check exclude each other", exits.USAGE)
    if len(files) > 1 and not (write or check):
        raise CliError("stdout takes one file: add --write or --check for several", exits.USAGE)
    good = [_one(file, write=write, check=check) for file in files]
    return exits.OK if all(good) else exits.INVALID


def _one(file: Path, *, write: bool, check: bool) -> bool:
    """Whether the file is valid and, with `check`, written as it should be."""
    from shared.dsl.authoring.format import canonical  # late: `--help` does without the compiler
    from shared.tools import registry

    try:
        source = file.read_bytes()
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}", exits.USAGE) from None
    migrated = canonical(source, kinds=registry.specs(), file=str(file))
    if migrated.text is None:
        for diagnostic in migrated.diagnostics:
            click.echo(str(diagnostic), err=True)
        return False
    text = migrated.text.encode("utf-8")
    if text != source:
        click.echo(f"{file}: {_would(write=write, check=check)}", err=True)
    for diagnostic in migrated.changed:
        click.echo(str(diagnostic), err=True)
    if write and text != source:
        _replace(file, text)
    elif not (write or check):
        screen.exact(migrated.text, nl=False)
    return not check or text == source


def _replace(file: Path, text: bytes) -> None:
    """The old source or the new one, never half of either."""
    beside = file.with_name(f".{file.name}.migrated")
    beside.write_bytes(text)
    beside.chmod(file.stat().st_mode)
    beside.replace(file)


def _would(*, write: bool, check: bool) -> str:
    return "rewritten" if write else "would change" if check else "changed"

"""Pool documents in files."""

from pathlib import Path

from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.playbooks import diagnostics, kinds
from shared.dsl.documents.compile import POOL as POOL_KIND
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import Pool
from shared.tools import registry

SUFFIXES = (".yaml", ".yml")


def valid(file: Path) -> tuple[Pool, str]:
    """A document and its source; what is wrong with it is reported, and ends the command."""
    from services.cli.playbooks.documents import read

    source = read(file)
    kinds.expect(file, source, POOL_KIND)
    compiled = compile_pool(source, kinds=registry.specs(), file=str(file))
    diagnostics.report(compiled.diagnostics)
    if compiled.document is None:
        raise diagnostics.not_valid(file, compiled.diagnostics)
    return compiled.document, source.decode()


def in_places(places: tuple[Path, ...]) -> list[tuple[Pool, str]]:
    """Of files, and of the YAML files of folders: hidden ones are left out, as a mounted ConfigMap has some."""
    files = [file for place in places for file in (_in_folder(place) if place.is_dir() else [place])]
    found = [valid(file) for file in files]
    names = [pool.name for pool, _ in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CliError(f"pool {twice[0]} is in two of the files", exits.INVALID)
    return found


def _in_folder(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and not file.name.startswith("."))

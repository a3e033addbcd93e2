"""A file of one kind where a command takes another: it is told which command takes it. What is wrong with it as the
other kind helps nobody, and to mend that would spoil the file."""

from pathlib import Path
from typing import Final

from services.cli.console import exits
from services.cli.console.exits import CliError
from shared.dsl.documents.compile import kind_in

TAKEN_BY: Final = {
    "Test": "noetlctl test {file}", "Schedule": "noetlctl schedule apply -f {file}",
    "Trigger": "noetlctl trigger apply -f {file}", "Pool": "noetlctl pool apply -f {file}",
}


def expect(file: Path, source: bytes, wanted: str = "") -> None:
    """Exit code 3 when it is a test, schedule, trigger or pool, and not `wanted`."""
    kind = kind_in(source)
    if kind and kind != wanted:
        raise CliError(f"{file} is a {kind.lower()}: {TAKEN_BY[kind].format(file=file)}", exits.INVALID)

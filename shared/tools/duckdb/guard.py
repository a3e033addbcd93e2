"""What SQL on DuckDB may touch: files in the folders and at the addresses its operator allows, those of its
credentials, and no setting but the few that change what a query means."""

import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from shared.tools.base.contract import ToolOptions
from shared.tools.base.folders import holds_a_stack, inside
from shared.tools.base.guard import BadCall
from shared.tools.sql.text import literal

SETTING = "NOETL_DUCKDB_FILES"
MEMORY = ":memory:"
MEMORY_LIMIT = "512MB"   # unless spec.memory_limit says otherwise
TEMP_LIMIT = "4GB"       # of what one database puts into its temporary folder
THREADS = 2              # of one database
# Settings a statement may change: none of them reaches a file, a server or more of the machine.
FREE = ("Calendar", "TimeZone", "default_collation", "default_null_order", "default_order", "explain_output",
        "ieee_floating_point_ops", "immediate_transaction_mode", "integer_division", "null_order",
        "preserve_identifier_case", "preserve_insertion_order", "scalar_subquery_error_on_multiple_rows")
# Python variables are no tables, nothing is installed or loaded unasked.
_OFF = ("python_enable_replacements", "autoinstall_known_extensions", "autoload_known_extensions",
        "allow_community_extensions")
# They open files and print on the worker's own output, whatever is locked; a log that cannot be written ends the
# worker's process when the database is closed.
_WORKERS_OWN = re.compile(r"\b(enable_logging|enable_profil(?:e|ing))\b", re.IGNORECASE)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class Guard(Struct, frozen=True):
    """`folders` are resolved; `addresses` such as `gs://bucket/` are beginnings of names."""

    folders: tuple[str, ...]
    addresses: tuple[str, ...]
    extensions: str
    temp_folder: str

    def file(self, name: str, given: str) -> str:
        """A path in one of the folders, links followed; a relative one is in the first."""
        if not self.folders:
            raise BadCall(f"{name}: this worker allows DuckDB no files ({SETTING})")
        try:
            found = [path for each in self.folders if (path := inside(Path(each), given))]
        except (OSError, ValueError):
            raise BadCall(f"{name} is not the path of a file") from None
        if not found or ":" in given:  # `md:`, `sqlite:`, `:memory:name` are no files
            raise BadCall(f"{name}: not in a folder that this worker allows DuckDB ({SETTING})")
        return str(found[0])

    def place(self, name: str, given: str) -> str:
        """The same, or an address that is allowed."""
        if not _ADDRESS.match(given):
            return self.file(name, given)
        if ".." in given or not given.startswith(self.addresses or "\0"):
            raise BadCall(f"{name}: not at an address that this worker allows DuckDB ({SETTING})")
        return given

    def opening(self, memory: str = MEMORY_LIMIT, temp: str | None = None, *, lake: bool = False) -> list[str]:
        """What is set before extensions are loaded. Without `temp` DuckDB uses a folder beside the database. DuckLake
        looks for secrets on the disk too: it gets a folder without any."""
        if held := next((each for each in self.folders if holds_a_stack(Path(each))), ""):
            raise BadCall(f"{SETTING}: {held} holds the folder of a stack, which no task may read: allow another")
        given = {"memory_limit": memory, "threads": str(THREADS), "max_temp_directory_size": TEMP_LIMIT,
                 "allow_persistent_secrets": str(lake).lower(), **dict.fromkeys(_OFF, "false")}
        if self.extensions:
            given["extension_directory"] = self.extensions
        if temp is not None:
            given |= {"temp_directory": temp, "secret_directory": temp}
        return [f"SET {name} = {literal(value, escapes=False)}" for name, value in given.items()]

    def closing(self, scopes: Sequence[str] = ()) -> list[str]:
        """What is set last: from here on the database has what it is allowed and keeps it."""
        allowed = [*self.folders, *self.addresses, *scopes]
        return [f"SET allowed_directories = {_list(allowed)}", "SET enable_external_access = false",
                f"SET allowed_configs = {_list(FREE)}", "SET lock_configuration = true"]


def guard(options: ToolOptions) -> Guard:
    places = [each.strip() for each in options.duckdb_files if each.strip()]
    addresses = tuple(each for each in places if _ADDRESS.match(each))
    folders = tuple(str(Path(each).resolve()) for each in places if each not in addresses)
    return Guard(folders, addresses, options.duckdb_extensions, options.temp_folder or tempfile.gettempdir())


class TempFolder:
    """Of one database in memory: DuckDB lets SQL read what is in it, so it is nobody else's."""

    def __init__(self, within: str) -> None:
        self.path = tempfile.mkdtemp(prefix="duckdb-", dir=within)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def check(texts: Iterable[str]) -> None:
    for text in texts:
        if found := _WORKERS_OWN.search(text):
            raise BadCall(f"{found[1]} is not for tasks: it writes to the worker's own files and output")


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(literal(each, escapes=False) for each in values)}]"

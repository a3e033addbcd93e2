"""A playbook file, read and compiled."""

from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.playbooks import diagnostics as playbook_diagnostics
from services.cli.playbooks import kinds
from shared.dsl.compile import compile_playbook
from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.model.plan import Plan
from shared.tools import registry


class Checked(Struct, frozen=True):
    """`plan` is None when the playbook cannot run."""

    source: bytes
    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]


class Valid(Struct, frozen=True):
    source: bytes
    plan: Plan


def check(file: Path, *, strict: bool = False, pools: Collection[str] | None = None,
          credentials: Collection[str] | None = None) -> Checked:
    try:
        source = file.read_bytes()
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}", exits.USAGE) from None
    compiled = compile_playbook(source, file=str(file), kinds=registry.specs(), strict=strict, pools=pools,
                                programs=True, credentials=credentials)
    return Checked(source, compiled.plan, tuple(compiled.diagnostics))


def valid(file: Path) -> Valid:
    """Prints what there is to say; ends the command with 3 when the playbook cannot run."""
    checked = check(file)
    kinds.expect(file, checked.source)
    playbook_diagnostics.report(checked.diagnostics)
    if checked.plan is None:
        raise playbook_diagnostics.not_valid(file, checked.diagnostics)
    return Valid(checked.source, checked.plan)

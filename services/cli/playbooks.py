"""A playbook file, read and compiled; its diagnostics, printed."""

import json
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from services.cli import exits
from services.cli.exits import CliError
from shared.dsl.compile import compile_playbook
from shared.dsl.diagnostics import Diagnostic
from shared.dsl.plan import Plan
from shared.tools import registry


class Checked(Struct, frozen=True):
    """`plan` is None when the playbook cannot run."""

    source: bytes
    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]


class Valid(Struct, frozen=True):
    source: bytes
    plan: Plan


def check(file: Path, *, strict: bool = False) -> Checked:
    try:
        source = file.read_bytes()
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}", exits.USAGE) from None
    compiled = compile_playbook(source, file=str(file), kinds=registry.specs(), strict=strict)
    return Checked(source, compiled.plan, tuple(compiled.diagnostics))


def valid(file: Path) -> Valid:
    """Prints what there is to say; ends the command with 3 when the playbook cannot run."""
    checked = check(file)
    report(checked)
    if checked.plan is None:
        errors = sum(diagnostic.severity == "error" for diagnostic in checked.diagnostics)
        raise CliError(f"{file} is not valid: {errors} error{'s' if errors != 1 else ''}", exits.INVALID)
    return Valid(checked.source, checked.plan)


def report(checked: Checked) -> None:
    for diagnostic in checked.diagnostics:
        click.echo(str(diagnostic), err=True)


def as_json(*checked: Checked) -> str:
    diagnostics = msgspec.to_builtins([diagnostic for each in checked for diagnostic in each.diagnostics])
    valid = all(each.plan is not None for each in checked)
    return json.dumps({"valid": valid, "diagnostics": diagnostics}, ensure_ascii=False)

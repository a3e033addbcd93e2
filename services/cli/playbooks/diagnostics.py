"""Diagnostics of a file, as the commands show them."""

import json
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from services.cli.console import exits, screen
from services.cli.console.exits import CliError
from shared.dsl.model.diagnostics import Diagnostic


def report(diagnostics: Sequence[Diagnostic]) -> None:
    for diagnostic in diagnostics:
        click.echo(str(diagnostic), err=True)


def not_valid(file: Path, diagnostics: Sequence[Diagnostic]) -> CliError:
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    return CliError(f"{file} is not valid: {errors} error{'s' if errors != 1 else ''}", exits.INVALID)


def as_json(valid: bool, diagnostics: Sequence[Diagnostic]) -> str:
    found = {"valid": valid, "diagnostics": msgspec.to_builtins(diagnostics)}
    return json.dumps(found, ensure_ascii=not screen.takes_unicode())

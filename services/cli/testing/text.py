"""What `noetlctl test` says to people: a line for each case, and for a failure what was expected, what was found and
the path of the execution."""

import json
from collections.abc import Sequence
from typing import Any

import click
import yaml

from services.cli.console import screen
from services.cli.testing.runner import CaseFailure, CaseReport, Explored, FileReport

PLAIN = ("mock", "unused", "stuck", "history", "faults")  # failures that are a sentence
MAX_VALUE = 400  # characters of a value on one line
MAX_PATH = 20  # steps of a path that are shown
INDENT = "      "


def show(report: FileReport) -> None:
    click.echo(report.file)
    for case in report.cases:
        _case(case)
    for warning in report.warnings:
        click.echo(f"  ! {warning}")
    if not report.valid:
        click.echo(screen.style("  ✗ not valid: see the diagnostics", fg="red"))


def _case(case: CaseReport) -> None:
    sign = screen.style("✓", fg="green") if case.passed else screen.style("✗", fg="red")
    explored = f", {case.explored.runs} seeds" if case.explored is not None else ""
    click.echo(f"  {sign} {case.name} ({case.seconds:.3f} s{explored})")
    for failure in case.failures:
        _failure(failure)
    if not case.passed and case.came is not None:
        came = case.came
        click.echo(f"{INDENT}path taken: {path(came.path)}; {came.status} after {came.elapsed:g} s")
        if came.error and not any(failure.what.startswith("error") for failure in case.failures):
            click.echo(f"{INDENT}error: {_value(came.error)}")
    if case.explored is not None:
        _again(case.explored)


def path(steps: Sequence[str]) -> str:
    """The first steps and the last of a long one."""
    if len(steps) > MAX_PATH:
        steps = [*steps[:MAX_PATH // 2], f"… {len(steps) - MAX_PATH} more …", *steps[-MAX_PATH // 2:]]
    return " → ".join(steps) or "none"


def _again(explored: Explored) -> None:
    if explored.again:
        told = ", ".join(f"{name} ({runs} of {explored.runs} runs)" for name, runs in sorted(explored.again.items()))
        click.echo(f"{INDENT}called again after a fault: {told}")


def _failure(failure: CaseFailure) -> None:
    if failure.what in PLAIN:
        click.echo(f"{INDENT}{failure.message}")
        if failure.mock:
            _missing(failure)
        if failure.seed is not None and failure.got is not None:
            click.echo(f"{INDENT}  first decision that differs, in the plain run: {failure.expected}")
            click.echo(f"{INDENT}  with seed {failure.seed}: {failure.got}")
            click.echo(f"{INDENT}  if this may depend on the order, write order: any in the case")
        return
    click.echo(f"{INDENT}{failure.message}")
    if not failure.message.endswith("was not expected"):
        click.echo(f"{INDENT}  expected  {screen.style(_value(failure.expected), fg='green')}")
    if not failure.message.endswith("is not there"):
        click.echo(f"{INDENT}  got       {screen.style(_value(failure.got), fg='red')}")


def _missing(failure: CaseFailure) -> None:
    call = yaml.safe_dump(failure.call, sort_keys=False, allow_unicode=True, width=100).rstrip("\n")
    click.echo(f"{INDENT}it would be called with")
    click.echo(_indented(call, INDENT + "    "))
    click.echo(f"{INDENT}add to mocks{', or its file to with' if failure.call and 'path' in failure.call else ''}:")
    click.echo(_indented(failure.mock or "", INDENT + "    "))


def _indented(text: str, by: str) -> str:
    return "\n".join(by + line for line in text.splitlines())


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE else text[:MAX_VALUE] + "…"


def total(reports: Sequence[FileReport], seconds: float) -> str:
    failed, passed = sum(report.failed for report in reports), sum(len(report.cases) for report in reports)
    invalid = sum(not report.valid for report in reports)
    parts = [f"{passed - failed} passed"] + ([f"{failed} failed"] if failed else [])
    parts += [f"{invalid} not valid"] if invalid else []
    return f"{', '.join(parts)} in {seconds:.2f} s"

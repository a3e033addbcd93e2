"""noetlctl validate: every diagnostic of one or several files, errors and warnings."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from services.cli.console import exits
from services.cli.stack import context

if TYPE_CHECKING:
    from shared.dsl.model.diagnostics import Diagnostic


@click.command("validate", epilog="Example: noetlctl validate playbooks/*.yaml --strict -o sarif")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Take the canonical form only, not the formal dialect.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "sarif"]), default="text", show_default=True,
    help="How to print.",
)
@click.option("--server", is_flag=True, help="Also look which worker pools and credentials the stack has.")
@context.option
def command(files: tuple[Path, ...], strict: bool, output: str, server: bool, context_file: Path | None) -> int:
    """Say everything that is wrong with a playbook, its tests, a schedule or a trigger. Exits 3 when one cannot run."""
    from services.cli.playbooks import diagnostics as playbook_diagnostics  # late: `--help` does without the compiler
    from services.cli.playbooks import sarif

    there = _there(context_file) if server or context_file else None
    checked = {file: _check(file, strict, there) for file in files}
    diagnostics = [diagnostic for each, _ in checked.values() for diagnostic in each]
    valid = all(summary for _, summary in checked.values())
    if output == "json":
        click.echo(playbook_diagnostics.as_json(valid, diagnostics))
    elif output == "sarif":
        click.echo(sarif.render(diagnostics))
    else:
        for file, (found, summary) in checked.items():
            playbook_diagnostics.report(found)
            if summary:
                click.echo(f"{file}: valid, {summary}")
    return exits.OK if valid else exits.INVALID


class There(NamedTuple):
    """What a stack has: what each pool provides, the names of credentials."""

    pools: Mapping[str, frozenset[str]]
    credentials: Collection[str]


def _there(context_file: Path | None) -> There:
    import asyncio

    from services.cli.console import run_async
    from services.cli.pools.queues import on_server

    run_async.configure_logs()
    return There(*asyncio.run(on_server(context.find(context_file))))


def _check(file: Path, strict: bool, there: There | None) -> "tuple[Sequence[Diagnostic], str]":
    """What is wrong, and one line about the file if it can be used."""
    from services.cli.playbooks import documents, playbook_file
    from services.cli.testing import suites
    from shared.dsl.documents.compile import TEST

    kind = documents.kind(file)
    if kind == TEST:
        tested = suites.Library().test(file).compiled
        return tested.diagnostics, suites.summary(tested.test) if tested.test is not None else ""
    if kind:
        found = documents.check(file, kind)
        return found.diagnostics, documents.summary(found.document) if found.document is not None else ""
    known = {} if there is None else there._asdict()
    checked = playbook_file.check(file, strict=strict, **known)
    plan = checked.plan
    return checked.diagnostics, f"{len(plan.steps)} steps, path {plan.path}" if plan is not None else ""

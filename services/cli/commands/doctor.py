"""noetlctl doctor: what is right and what is wrong with a stack, and what to do about it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, render, screen
from services.cli.stack import context

if TYPE_CHECKING:
    from services.cli.doctor.finding import Finding
    from services.cli.stack.context import Found

COLOURS = {"ok": "green", "skipped": "bright_black", "warning": "yellow", "problem": "red"}
MAX_FOUND = 900  # characters; -o json has the whole
MARKS = {"ok": "ok", "skipped": "skipped", "warning": "WARNING", "problem": "PROBLEM"}


@click.command("doctor", epilog="Example: noetlctl doctor --strict -o json")
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
@click.option("--monitor", metavar="URL", default="", help="Monitoring address of the NATS server, such as "
              "http://localhost:8222: says how often it syncs its files, and its limits.")  # fmt: skip
@render.option("text", "table", "json", "yaml")
@context.option
def command(strict: bool, monitor: str, output: str, context_file: Path | None) -> int:
    """Say what is right and what is wrong with a stack, and what to do about it.

    Looks at versions, the promise that holds when something dies, streams, permissions, what waits, who is there, disk,
    PostgreSQL and clocks; changes nothing. Exits 1 when there is a problem.
    """
    from services.cli.console import run_async

    return run_async.run(_doctor(context.locate(context_file), strict, monitor, output))


async def _doctor(found: "Found", strict: bool, monitor: str, output: str) -> int:
    from services.cli.doctor import examination
    from services.cli.doctor.finding import worst

    findings = await examination.examine(found, monitor)
    render.document(_shape(findings, found.settings.nats_url), output, "status", lambda: _show(findings, output))
    return exits.ERROR if worst(findings) in (("problem", "warning") if strict else ("problem",)) else exits.OK


def _shape(findings: "list[Finding]", url: str) -> dict[str, Any]:
    import msgspec

    from services.cli.doctor.finding import STATUSES, worst
    from services.cli.doctor.target import bare

    counts = {status: sum(finding.status == status for finding in findings) for status in STATUSES}
    checks = [msgspec.to_builtins(finding) for finding in findings]
    return {"status": worst(findings), "broker": bare(url), "counts": counts, "checks": checks}


def _show(findings: "list[Finding]", output: str) -> None:
    if output == "table":
        rows = [[each.name, each.status, _short(each.found)] for each in findings]
        render.table(["CHECK", "STATUS", "FOUND"], rows)
        return
    wide = max(len(each.name) for each in findings)
    for each in findings:
        mark = screen.style(f"{MARKS[each.status]:<7}", fg=COLOURS[each.status])
        click.echo(f"{mark}  {each.name:<{wide}}  {_short(each.found)}")
        for title, text in (("why", each.why), ("fix", each.fix)):
            if text:
                click.echo(f"{'':<7}  {'':<{wide}}  {title}: {text}")
    grave = [sum(each.status == status for each in findings) for status in ("problem", "warning")]
    click.echo(f"\n{len(findings)} checks: {grave[0]} problems, {grave[1]} warnings")


def _short(found: str) -> str:
    """A hundred dead letters are for a program to read."""
    return found if len(found) <= MAX_FOUND else f"{found[:MAX_FOUND]} … (-o json shows the whole)"

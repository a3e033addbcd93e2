"""noetlctl test: tests of playbooks, on the deciders of the services and with no server (`cli/testing/runner.py`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, render
from services.cli.console.exits import CliError
from services.cli.testing.faults import FAULTS

if TYPE_CHECKING:
    from services.cli.testing.coverage import Covered
    from services.cli.testing.runner import FileReport, Options

MAX_SEEDS = 10_000


def _faults(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    given = tuple(dict.fromkeys(each.strip() for each in value.split(",") if each.strip()))
    for each in given:
        if each not in FAULTS:
            raise click.BadParameter(f"{each!r} is none of {', '.join(FAULTS)}")
    return given


@click.command("test", epilog="Example: noetlctl test examples --coverage --faults crash,dup,reorder --seeds 50")
@click.argument("files", nargs=-1, metavar="[FILE|FOLDER]...", type=click.Path(path_type=Path))
@click.option("-k", "select", metavar="TEXT", default="", help="Only cases whose name has this text.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first case that fails.")
@click.option("--faults", metavar="LIST", default="", callback=_faults,
              help="Run each case again under seeded faults: crash, dup, reorder.")
@click.option("--seeds", type=click.IntRange(1, MAX_SEEDS), default=20, show_default=True,
              help="How many seeds, with --faults.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The first of them.")
@click.option("--coverage", is_flag=True, help="Show what the tests never reach.")
@click.option("--coverage-min", type=click.FloatRange(0, 100), metavar="PERCENT",
              help="Fail when less of a playbook is covered.")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Also write JUnit XML there.")
@render.option("text", "json", "yaml", "junit")
def command(
    files: tuple[Path, ...], select: str, fail_fast: bool, faults: tuple[str, ...], seeds: int, seed: int,
    coverage: bool, coverage_min: float | None, junit: Path | None, output: str,
) -> int:
    """Run the tests of playbooks, without a server.

    Tests are *.test.yaml files, those here unless files or folders are named. No tool is called: mocks answer, and
    time is virtual.
    """
    from services.cli.testing.runner import Options  # late: `--help` does without the engine

    options = Options(faults, seeds, seed, fail_fast, select)
    return _run(files or (Path(),), options, coverage or coverage_min is not None, coverage_min, junit, output)


def _run(
    given: Sequence[Path], options: "Options", covering: bool, least: float | None, junit: Path | None, output: str
) -> int:
    import time

    from services.cli.playbooks import diagnostics
    from services.cli.testing import coverage as testing_coverage
    from services.cli.testing import runner, suites
    from services.cli.testing import text as suite_text
    from services.cli.testing.real_tools import RealTools
    from shared.answers.playtests.coverage import Coverage

    began = time.perf_counter()
    library = suites.Library()
    files = [library.test(file) for file in suites.find(given)]
    coverage: dict[str, Coverage] = {}
    reports: list[FileReport] = []
    with RealTools() as tools:
        for report in runner.run_files(files, options, tools.call, coverage):
            reports.append(report)
            diagnostics.report(report.diagnostics)
            if output == "text" and (report.cases or not report.valid):
                suite_text.show(report)
    _some_ran(reports, options.select)
    covered = testing_coverage.covered(coverage, [book for file in files for book in file.books]) if covering else None
    seconds = time.perf_counter() - began
    _write(reports, covered, seconds, junit, output)
    return _code(reports, covered, least)


def _some_ran(reports: "Sequence[FileReport]", select: str) -> None:
    if all(report.valid and not report.cases for report in reports):
        raise CliError(f"no case has {select!r} in its name", exits.USAGE)


def _write(
    reports: "Sequence[FileReport]", covered: "Sequence[Covered] | None", seconds: float, junit: Path | None,
    output: str,
) -> None:
    from services.cli.testing import coverage as testing_coverage
    from services.cli.testing import junit as junit_xml
    from services.cli.testing import text as suite_text

    if junit is not None:
        junit.write_text(junit_xml.render(reports), encoding="utf-8")
    if output == "text":
        if covered:
            testing_coverage.show(covered)
        click.echo(suite_text.total(reports, seconds))
    elif output == "junit":
        click.echo(junit_xml.render(reports), nl=False)
    else:
        render.value(_shape(reports, covered, seconds), output)


def _shape(
    reports: "Sequence[FileReport]", covered: "Sequence[Covered] | None", seconds: float
) -> dict[str, Any]:
    import msgspec

    cases = [case for report in reports for case in report.cases]
    return {
        "passed": all(report.valid for report in reports) and all(case.passed for case in cases),
        "cases": len(cases),
        "failed": sum(not case.passed for case in cases),
        "invalid": sum(not report.valid for report in reports),
        "seconds": round(seconds, 3),
        "files": msgspec.to_builtins(reports),
        "coverage": None if covered is None else [each.as_dict() for each in covered],
    }


def _code(reports: "Sequence[FileReport]", covered: "Sequence[Covered] | None", least: float | None) -> int:
    if not all(report.valid for report in reports):
        return exits.INVALID
    short = [each for each in covered or () if least is not None and each.percent < least]
    for each in short:
        click.echo(f"noetlctl: {each.file} is covered to {each.percent:g} %, less than {least:g} %", err=True)
    return exits.ERROR if short or any(report.failed for report in reports) else exits.OK

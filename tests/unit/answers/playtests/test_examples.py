"""The tests of the examples pass, plainly and under faults, and reach every part of their playbooks."""

from pathlib import Path

import pytest

from services.cli.testing.coverage import covered
from services.cli.testing.faults import FAULTS
from services.cli.testing.real_tools import RealTools
from services.cli.testing.runner import Options, run_files
from services.cli.testing.suites import Library
from shared.answers.playtests.coverage import Coverage
from tests.support.examples import TESTS

NAMES = ("fallback", "hello", "pages", "retry", "v10_pagination")


def test_the_examples_have_tests() -> None:
    assert [file.name for file in TESTS] == [f"{name}.test.yaml" for name in NAMES]


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_an_example_passes_its_test_under_faults_and_all_of_it_is_covered(file: Path) -> None:
    test = Library().test(file)
    assert test.compiled.diagnostics == ()
    coverage: dict[str, Coverage] = {}
    with RealTools() as tools:
        (report,) = run_files([test], Options(faults=FAULTS, seeds=5), tools.call, coverage)
    assert [(case.name, case.failures) for case in report.cases if not case.passed] == []
    assert report.warnings == []
    (found,) = covered(coverage, test.books)
    assert (found.percent, found.never) == (100.0, [])

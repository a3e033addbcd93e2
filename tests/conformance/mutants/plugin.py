"""`-p tests.conformance.mutants.plugin --mutant NAME`: pytest with one mutant alive in its process, and so in the stack
that its fixtures start. The exit code says whether a test itself has failed; what is checked behind the tests, that
every history is right, is no proof of a clause."""

from collections.abc import Generator

import pytest

from tests.conformance.mutants.tables import EVERY

SURVIVED, KILLED = 70, 71


class _Seen:
    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        session.exitstatus = KILLED if self.failed else SURVIVED


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutant", default="", help="the mutant that is alive")


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    name = session.config.getoption("--mutant")
    session.config.pluginmanager.register(_Seen())
    with EVERY[name].alive():
        return (yield)

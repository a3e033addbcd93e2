"""Reports of tests as JUnit XML, which CI systems show."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as xml

from services.cli.testing.runner import CaseReport, FileReport
from services.cli.testing.text import path

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(reports: Sequence[FileReport]) -> str:
    cases = [case for report in reports for case in report.cases]
    root = xml.Element("testsuites", name="noetlctl test", tests=str(len(cases) + _invalid(reports)),
                       failures=str(sum(not case.passed for case in cases)), errors=str(_invalid(reports)),
                       time=_seconds(cases))
    for report in reports:
        root.append(_suite(report))
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _invalid(reports: Sequence[FileReport]) -> int:
    return sum(not report.valid for report in reports)


def _seconds(cases: Sequence[CaseReport]) -> str:
    return f"{sum(case.seconds for case in cases):.6f}"


def _suite(report: FileReport) -> xml.Element:
    suite = xml.Element("testsuite", name=_text(report.file), tests=str(len(report.cases) or 1 - report.valid),
                        failures=str(report.failed), errors=str(int(not report.valid)), skipped="0",
                        time=_seconds(report.cases))
    for case in report.cases:
        suite.append(_case(report, case))
    if not report.valid:
        place = xml.SubElement(suite, "testcase", name="the file is valid", classname=_text(report.file), time="0")
        found = xml.SubElement(place, "error", message="the file is not valid", type="invalid")
        found.text = _text("\n".join(str(each) for each in report.diagnostics))
    return suite


def _case(report: FileReport, case: CaseReport) -> xml.Element:
    found = xml.Element("testcase", name=_text(case.name), classname=_text(report.file), file=_text(report.file),
                        line=str(case.line), time=f"{case.seconds:.6f}")
    if case.failures:
        first = case.failures[0]
        failure = xml.SubElement(found, "failure", message=_text(first.message), type=_text(first.what))
        failure.text = _text("\n".join(_told(case)))
    return found


def _told(case: CaseReport) -> list[str]:
    lines = []
    for failure in case.failures:
        lines.append(failure.message)
        if failure.expected is not None or failure.got is not None:
            lines += [f"  expected {failure.expected!r}", f"  got      {failure.got!r}"]
        lines += (failure.mock or "").splitlines()
    if case.came is not None:
        lines.append(f"path taken: {path(case.came.path)}; {case.came.status}")
    return lines


def _text(text: str) -> str:
    """What XML cannot hold is left out."""
    return _NOT_XML.sub("", text)

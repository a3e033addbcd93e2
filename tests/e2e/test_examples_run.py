"""Every example runs by one command, in an empty folder of a fresh virtualenv, and does what it says."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from services.cli.playbooks import examples
from tests.support.documents.transcript import Shell

WITHIN_S = 180.0
Check = Callable[[str], None]


def result(printed: str) -> object:
    """The last line of `-o json`."""
    return json.loads(printed.splitlines()[-1])["result"]


def pages(printed: str) -> None:
    assert printed.endswith("\n2760")


def api_to_postgres(printed: str) -> None:
    """Twice, and the second time nothing is there twice."""
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert [each["result"]["rows"] for each in found] == [[{"orders": 5, "total": 150}]] * 2


def fan_out(printed: str) -> None:
    found = json.loads(printed[printed.index("\n{"):])
    assert found.pop("at_once") <= 2
    assert found == {"price": 42, "stock": 3, "reviews": ["good", "better"]}


def approval(printed: str) -> None:
    assert re.findall(r'"did": "(.*)"', printed) == [
        "release 4 is deployed", "nothing: release 4 was refused", "nothing: nobody answered within 2 s",
    ]


def nightly(printed: str) -> None:
    """Every two seconds from the first, those of the stop too."""
    nights, _, hurried = printed.partition("stopped\n")
    assert len(re.findall(r" 02:30:00\+0[12]:00$", nights, re.MULTILINE)) == 3
    times = sorted(map(datetime.fromisoformat, re.findall(r"started  (\S+ \S+)", hurried)))
    assert [b - a for a, b in pairwise(times)] == [timedelta(seconds=2)] * (len(times) - 1)
    assert len(times) >= 6


def trigger(printed: str) -> None:
    assert sorted(printed.splitlines()[-2:]) == ["order 2 of berlin", "order 3 of oslo"]


def sub_playbooks(printed: str) -> None:
    assert json.loads(printed[printed.index("\n{"):]) == {"total": 42, "failed": 1}


def python(printed: str) -> None:
    assert json.loads(printed[printed.index("\n{"):]) == {
        "report": {"mean": 6.5, "hours": [1, 3, 4]}, "endless": {"ended_after_s": 1}, "crash": {"attempt": 2},
    }


def parquet(printed: str) -> None:
    found = result(printed)
    assert isinstance(found, dict)
    assert [(row["day"], row["euros"]) for row in found["rows"]] == [("01.01.", 10), ("02.01.", 20), ("03.01.", 30)]


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (pages, api_to_postgres, fan_out, approval, nightly, trigger, sub_playbooks, python, parquet)
}


def test_every_example_is_checked() -> None:
    assert sorted(CHECKS) == examples.names()


@pytest.mark.parametrize("name", examples.names())
def test_an_example_runs_by_one_command(name: str, typed: Shell) -> None:
    written = typed.run(f"noetlctl init --example {name}", WITHIN_S)
    assert written[-1].endswith(f"try: {examples.command(name)}")
    CHECKS[name]("\n".join(typed.run(examples.command(name), WITHIN_S)))


def test_a_wheel_has_the_examples_of_the_tree(fresh: Path) -> None:
    (packed,) = fresh.glob("lib/python*/site-packages/services/cli/examples")
    for name in examples.names():
        for file in examples.files(name):
            assert (packed / name / file.name).read_bytes() == file.read_bytes()

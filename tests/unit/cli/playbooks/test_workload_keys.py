"""`--set` of a key that nothing reads is refused: it would change nothing."""

import click
import pytest

from services.cli.playbooks import workload_keys
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from shared.tools import registry
from tests.support.playbooks import head


def plan(workflow: str, workload: str = "{url: x, db: {host: a}}") -> Plan:
    text = f"{head('t')}workload: {workload}\nworkflow:\n{workflow}"
    found = compile_playbook(text.encode(), kinds=registry.specs()).plan
    assert found is not None
    return found


QUIET = "  - {step: start, tool: {kind: noop}}\n"


@pytest.mark.parametrize("given", ["url=y", "db.host=b", "db={}"])
def test_keys_of_the_workload_are_taken(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    workload_keys.check(plan(QUIET), (given,))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("given", "said"), [
    ("urll=y", "reads no 'urll': did you mean url?"), ("other=1", "reads no 'other' (it has db, url)"),
])
def test_a_key_that_nothing_reads_is_refused_with_the_one_that_is_meant(given: str, said: str) -> None:
    with pytest.raises(click.BadParameter, match="reads no") as refused:
        workload_keys.check(plan(QUIET), (given,))
    assert said in str(refused.value)


@pytest.mark.parametrize("read", [
    "  - {step: start, tool: {kind: noop, args: {x: \"{{ other | default(1) }}\"}}}\n",
    "  - {step: start, tool: {kind: noop, args: {x: \"{{ workload.other }}\"}}}\n",
    "  - {step: start, tool: {kind: noop, args: {x: \"{{ workload }}\"}}}\n",
    "  - step: start\n    tool: {kind: noop}\n    next: {arcs: [{step: end, when: \"{{ other == 1 }}\"}]}\n"
    "  - {step: end}\n",
])
def test_a_key_that_a_template_reads_is_taken(read: str) -> None:
    workload_keys.check(plan(read), ("other=1",))


def test_a_new_key_deeper_in_the_workload_is_told_and_taken(capsys: pytest.CaptureFixture[str]) -> None:
    workload_keys.check(plan(QUIET), ("db.hots=b",))
    assert capsys.readouterr().err == "noetlctl: --set db.hots: the workload has no 'db.hots': did you mean host?\n"

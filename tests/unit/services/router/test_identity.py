"""The log names a playbook by path and version, whatever a request named it by."""

import pytest

from services.router.identity import named
from shared.dsl.compile import compile_playbook
from shared.events.request import Request
from shared.tools import registry
from tests.support.playbooks import head


@pytest.mark.parametrize(("playbook_id", "version"), [
    ("a/b@7", "7"),  # which `register` gave it: the source states none
    ("f" * 64, "1"),
    ("other@7", "1"),
])
def test_an_id_says_which_version_it_is(playbook_id: str, version: str) -> None:
    source = head("b", "a/b") + "workflow: [{step: start, tool: {kind: noop}}]\n"
    plan = compile_playbook(source, kinds=registry.specs()).plan
    assert plan is not None
    found = named(Request(playbook_id=playbook_id), plan)
    assert (found.path, found.version) == ("a/b", version)

"""What `migrate` says of a playbook that an earlier edition of the language took otherwise (ADR 32)."""

import pytest

from shared.dsl.authoring.format import canonical
from shared.tools import registry
from tests.unit.engine.support import HEAD, source_of

BOTH = """
- step: start
  tool: {kind: noop}
  case:
    - {when: "{{ event.name == 'step.exit' and response is defined }}", then: {set: {seen: 1}}}
    - {when: "{{ event.name == 'call.done' }}", then: {next: end}}
- step: end
"""
ONE = BOTH.replace("call.done", "step.done")
LOOP = "- {step: start, loop: {in: [1], iterator: n}, tool: {kind: noop}, vars: {all: '{{ result }}'}}"
ARC = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: end, when: "{{ event.name == 'step.exit' }}"}]}
- step: end
"""
BOOK = "workbook: [{name: w, tool: {kind: noop, args: {x: 1}}}]\n"
CALL = "- {step: start, tool: {kind: workbook, name: w, args: {x: 2}}}"


@pytest.mark.parametrize(("source", "told"), [
    (source_of(BOTH), ["DSL932 rules of both events of step 'start' act: the call's, then step.exit's"]),
    (source_of(ONE), []),
    (source_of(LOOP), ["DSL932 vars of step 'start' are taken once, of the result of its loop"]),
    (source_of(ARC), ["DSL931 the arc to 'end' takes a failure of 'start' too"]),
    (source_of(ARC.replace("step.exit", "step.done")), []),
    (f"{HEAD}{BOOK}workflow:\n  {CALL}\n", ["DSL932 the call's x wins over that of the workbook task"]),
])  # fmt: skip
def test_it_names_the_places_to_look_at(source: str, told: list[str]) -> None:
    found = canonical(source, kinds=registry.specs())
    assert found.text is not None, found.diagnostics
    assert [f"{each.code} {each.message}" for each in found.changed] == told
    assert canonical(found.text, kinds=registry.specs()).text == found.text

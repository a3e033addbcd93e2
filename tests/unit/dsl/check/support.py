"""Plans from short texts."""

from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from tests.support.playbooks import head
from tests.unit.dsl.tool_kinds import KINDS

HEAD = head("net") + "workload: {x: 1, y: 2}\nworkflow:\n"


def source_of(*steps: str) -> str:
    """`name -> target target` is exclusive, `name => …` inclusive; `target?x` has a condition on x, `(name)`
    is a step without tasks."""
    return HEAD + "".join(f"  - {_step(step)}\n" for step in steps)


def plan_of(*steps: str) -> Plan:
    compiled = compile_playbook(source_of(*steps), kinds=KINDS)
    assert compiled.plan is not None, [str(each) for each in compiled.diagnostics]
    return compiled.plan


def codes_of(*steps: str) -> list[str]:
    return [each.code for each in compile_playbook(source_of(*steps), kinds=KINDS).diagnostics]


def _step(text: str) -> str:
    name, arrow, *targets = text.split()
    tool = "" if name.startswith("(") else "tool: {kind: noop}, "
    arcs = ", ".join(_arc(target) for target in targets)
    mode = "inclusive" if arrow == "=>" else "exclusive"
    return f"{{step: {name.strip('()')}, {tool}next: {{spec: {{mode: {mode}}}, arcs: [{arcs}]}}}}"


def _arc(text: str) -> str:
    step, _, condition = text.partition("?")
    shown = condition.replace("!", "not workload.") if condition.startswith("!") else f"workload.{condition}"
    return f"{{step: {step}, when: '{{{{ {shown} }}}}'}}" if condition else f"{{step: {step}}}"

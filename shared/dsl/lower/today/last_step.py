"""The step `end` as the place where all branches meet: where no arc leads to it, and it has something to do, each step
that leads nowhere leads there.

FX §4.3 lets an execution complete where no `next` goes on, and calls `end` a convention. A playbook whose `end` is
named by no arc counts on that convention: nothing else could run it. An execution that began before goes on to
complete without it: this belongs to the third edition of the language."""

from collections.abc import Iterator

from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, items, listed, replaced, text_of
from shared.dsl.lower.today.survey import leads
from shared.dsl.source.nodes import Node

SINCE = 3
END = "end"


def lead_to_the_end(env: Env, root: Node) -> Node:
    workflow = get(root, "workflow")
    if env.edition < SINCE or workflow is None or not is_list(workflow):
        return root
    steps = [each for each in workflow.value if is_map(each)]
    last = [each for each in steps if text_of(get(each, "step")) == END]
    if len(last) != 1 or get(last[0], "tool") is None or get(last[0], "next") is not None:
        return root
    undoing = set(_undoing(workflow))
    if END in undoing or any(END in leads(each) for each in steps):
        return root
    open_ = [each for each in steps if each is not last[0] and text_of(get(each, "step")) not in undoing
             and get(each, "next") is None and get(each, "case") is None]
    if open_:
        env.note(last[0], "steps without next lead to end, which no arc names",
                 "write next: [{step: end}] where that is meant, and remove end where it is not")
    new = [changed(each, {"next": build(each.position, [{"step": END}])}) if any(each is one for one in open_) else each
           for each in workflow.value]
    return changed(root, {"workflow": replaced(workflow, new)})


def _undoing(node: Node) -> Iterator[str]:
    """Steps that undo others: no arc leads to them, and from them none."""
    for key, below in items(node):
        if key == "compensate":
            yield text_of(below) or text_of(get(below, "step"))
        yield from _undoing(below)
    for each in listed(node):
        yield from _undoing(each)

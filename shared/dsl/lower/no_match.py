"""`next.spec.on_no_match` and `executor.spec.no_next_is_error`: what it means that no arc matches. A branch that
ends is what a router does anyway; an error is a generated step that fails."""

from typing import Any

from shared.dsl.lower.build import directive, noop, otherwise
from shared.dsl.lower.names import expression
from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, listed, text_of, without
from shared.dsl.source.nodes import Node

ENDS = ("complete", "quiet")  # the token ends, and the execution when it was the last
FAILS = ("fail", "error")


def taken_off(env: Env, node: Node) -> tuple[Node, bool]:
    """The step without its `on_no_match`, and whether it must fail when no arc matches."""
    following, spec = get(node, "next"), get(node, "next", "spec")
    choice = get(spec, "on_no_match")
    if choice is None or following is None or spec is None:
        return node, env.must_match
    if choice.value not in (*ENDS, *FAILS):
        env.error(choice, "DSL204", f"on_no_match cannot be {str(choice.value)[:60]!r}",
                  f"one of: {', '.join((*ENDS, *FAILS))}")
    rest = without(spec, ("on_no_match",))
    plain = changed(following, {"spec": rest if rest.value else None})
    return changed(node, {"next": plain}), choice.value in FAILS


def must_match(env: Env, node: Node) -> list[Node]:
    """The step with a last arc for when none matches, and the step that fails there."""
    following, arcs = get(node, "next"), get(node, "next", "arcs")
    if following is None or arcs is None or not is_list(arcs) or not arcs.value:
        return [node]
    whens = [get(each, "when") for each in listed(arcs) if is_map(each)]
    if any(when is None or when.value is True for when in whens):
        return [node]
    step = text_of(get(node, "step"))
    arc: dict[str, Any] = {}
    if text_of(get(following, "spec", "mode")) == "inclusive":
        tests = [expression(text_of(when)) if when is not None and when.value is not False else "false"
                 for when in whens]
        if None in tests:
            env.error(arcs, "DSL602", "with on_no_match: fail each when is one expression", 'write when: "{{ … }}"')
            return [node]
        arc["when"] = "{{ event.error is none and not (" + ") and not (".join(str(test) for test in tests) + ") }}"
    name = env.label(f"{step}_no_match", following.position, f"no arc of step {step} matches")
    arc = {"step": name, **arc}
    what = f"no arc of step {step} matches"
    error = "{{ " + f"dict(kind='no_match', message={what!r}, retryable=false)" + " }}"
    fails = build(following.position, {
        "step": name, "tool": [noop(following.position, f"{name}_task", [otherwise(directive("fail", error=error))])]})
    last = Node(arcs.position, [*arcs.value, build(following.position, arc)])
    return [changed(node, {"next": changed(following, {"arcs": last})}), fails]

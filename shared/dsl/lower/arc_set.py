"""`set` on an arc: a generated step on the way writes it to ctx, with values taken where the arc is."""

from typing import Any

from shared.dsl.lower.build import directive, noop, otherwise
from shared.dsl.lower.name_meanings import patches
from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, items, replaced, text_of
from shared.dsl.source.nodes import Node


def arcs_that_set(env: Env, node: Node) -> list[Node]:
    """The step with plain arcs, and the steps that write for them."""
    step, following = text_of(get(node, "step")), get(node, "next")
    arcs = get(following, "arcs")
    if following is None or arcs is None or not is_list(arcs):
        return [node]
    new: list[Node] = []
    steps: list[Node] = []
    for each in arcs.value:
        plain, between = _settled(env, step, each) if is_map(each) and get(each, "set") is not None else (each, None)
        new.append(plain)
        steps += [between] if between is not None else []
    return [changed(node, {"next": changed(following, {"arcs": replaced(arcs, new)})}), *steps]


def _settled(env: Env, step: str, arc: Node) -> tuple[Node, Node | None]:
    patch, target = get(arc, "set"), get(arc, "step")
    assert patch is not None
    to_ctx, to_iter = patches(patch)
    if to_iter:
        name = next(iter(to_iter))
        env.error(patch, "DSL204", "an arc has no iter: it is of one run, and ends with it",
                  f"write args: {{{name}: …}}, which the next step reads as {{{{ {name} }}}}, "
                  f"or set: {{ctx.{name}: …}}")
        return changed(arc, {"set": None}), None
    if not to_ctx or target is None:
        env.error(patch, "DSL204", "set on an arc writes to ctx", "write set: {ctx.name: value}")
        return changed(arc, {"set": None}), None
    name = env.label(f"{step}_to_{text_of(target)}", arc.position, f"the set of an arc from step {step}")
    own = dict(items(get(arc, "args")))
    args: dict[str, Any] = {**own, **{f"set_{key}": value for key, value in to_ctx.items()}}
    written = {key: "{{ args['set_" + key + "'] }}" for key in to_ctx}
    handed = {key: "{{ args['" + key + "'] }}" for key in own}
    leads: dict[str, Any] = {"step": target, **({"args": handed} if handed else {})}
    writes = noop(arc.position, f"{name}_task", [otherwise(directive("continue", set_ctx=written))])
    between = build(arc.position, {"step": name, "tool": [writes], "next": {"arcs": [leads]}})
    return changed(arc, {"set": None, "step": build(arc.position, name), "args": build(arc.position, args)}), between

"""A plan as a picture: Mermaid and Graphviz text. Steps are boxes, those without tasks are round; arcs
carry their condition."""

from shared.dsl.model.plan import Arc, Plan, Step
from shared.dsl.model.texts import as_written

MAX_LABEL = 40


def mermaid(plan: Plan) -> str:
    ids = {name: f"s{index}" for index, name in enumerate(plan.steps)}
    lines = ["flowchart TD"]
    for name, step in plan.steps.items():
        left, right = ('["', '"]') if step.tasks else ('(["', '"])')
        lines.append(f"    {ids[name]}{left}{_html(caption(step))}{right}")
    for name, step in plan.steps.items():
        for arc in step.arcs:
            label = f'|"{_html(label_of(arc))}"|' if label_of(arc) else ""
            lines.append(f"    {ids[name]} {'==>' if step.mode == 'inclusive' else '-->'}{label} {ids[arc.step]}")
    return "\n".join(lines)


def dot(plan: Plan) -> str:
    lines = ["digraph playbook {", "    node [shape=box];"]
    for name, step in plan.steps.items():
        shape = "" if step.tasks else ", shape=oval"
        lines.append(f"    {_quoted(name)} [label={_quoted(caption(step))}{shape}];")
    for name, step in plan.steps.items():
        for arc in step.arcs:
            style = ", style=bold" if step.mode == "inclusive" else ""
            lines.append(f"    {_quoted(name)} -> {_quoted(arc.step)} [label={_quoted(label_of(arc))}{style}];")
    return "\n".join([*lines, "}"])


def caption(step: Step) -> str:
    """The step's name, and how it runs."""
    loop = f" (loop, {step.loop.mode})" if step.loop else ""
    kinds = ", ".join(dict.fromkeys(task.kind for task in step.tasks))
    return step.name + loop + (f": {kinds}" if kinds else "")


def label_of(arc: Arc) -> str:
    if arc.when is None:
        return ""
    text = " ".join(str(as_written(arc.when)).strip().removeprefix("{{").removesuffix("}}").split())
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"


def _html(text: str) -> str:
    """Mermaid wants entities where a character has a special meaning."""
    return "".join(f"#{ord(char)};" if char in '"<>#|[]{}&;`' else char for char in text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

"""A plan drawn as SVG: layers from top to bottom by the shortest way from `start`, the order within a
layer by the middle of the steps before. Arcs that lead back go round the side."""

from xml.sax.saxutils import escape

from shared.dsl.authoring.diagram import caption, label_of
from shared.dsl.model.plan import Plan

_CHAR, _HEIGHT, _PADDING = 7, 36, 12
_GAP_X, _GAP_Y, _MARGIN = 40, 64, 24
Box = tuple[float, float, float]  # middle, top, width


def svg(plan: Plan) -> str:
    boxes, width, height = _layout(plan)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>',
        f"<title>{escape(plan.name)}</title>",
    ]
    parts += _arcs(plan, boxes, width)
    for name, step in plan.steps.items():
        middle, top, wide = boxes[name]
        round_ = 4 if step.tasks else _HEIGHT / 2
        parts.append(f'<rect x="{middle - wide / 2:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{_HEIGHT}" '
                     f'rx="{round_:g}" fill="white" stroke="black"/>')
        parts.append(_text(caption(step), middle, top + _HEIGHT / 2 + 4, "middle"))
    return "\n".join([*parts, "</svg>"])


def _layers(plan: Plan) -> list[list[str]]:
    depth = {plan.start: 0}
    queue = [plan.start]
    for name in queue:
        for arc in plan.steps[name].arcs:
            if arc.step not in depth:
                depth[arc.step] = depth[name] + 1
                queue.append(arc.step)
    last = max(depth.values()) + 1
    layers: list[list[str]] = [[] for _ in range(last + 1)]
    for name in plan.steps:
        layers[depth.get(name, last)].append(name)  # what start cannot reach comes last
    return [layer for layer in layers if layer]


def _layout(plan: Plan) -> tuple[dict[str, Box], float, float]:
    wide = {name: len(caption(step)) * _CHAR + 2 * _PADDING for name, step in plan.steps.items()}
    layers = _layers(plan)
    before: dict[str, list[str]] = {name: [] for name in plan.steps}
    for name, step in plan.steps.items():
        for arc in step.arcs:
            before[arc.step].append(name)
    total = max(sum(wide[name] + _GAP_X for name in layer) for layer in layers)
    boxes: dict[str, Box] = {}
    for row, layer in enumerate(layers):
        placed = {name: [boxes[each][0] for each in before[name] if each in boxes] for name in layer}
        layer.sort(key=lambda name: sum(placed[name]) / len(placed[name]) if placed[name] else 0.0)
        left = _MARGIN + (total - sum(wide[name] + _GAP_X for name in layer)) / 2
        for name in layer:
            boxes[name] = (left + wide[name] / 2, _MARGIN + row * (_HEIGHT + _GAP_Y), wide[name])
            left += wide[name] + _GAP_X
    return boxes, total + 4 * _MARGIN, 2 * _MARGIN + len(layers) * (_HEIGHT + _GAP_Y) - _GAP_Y


def _arcs(plan: Plan, boxes: dict[str, Box], width: float) -> list[str]:
    drawn = []
    for name, step in plan.steps.items():
        for arc in step.arcs:
            (x, top, wide), (to_x, to_top, to_wide) = boxes[name], boxes[arc.step]
            if to_top > top:
                start, end = top + _HEIGHT, to_top
                bend = (end - start) / 2
                way = (f"M{x:.1f} {start:.1f} C{x:.1f} {start + bend:.1f} "
                       f"{to_x:.1f} {end - bend:.1f} {to_x:.1f} {end:.1f}")
                at = ((x + to_x) / 2, (start + end) / 2, "middle")
            else:
                side = width - _MARGIN
                start, end = top + _HEIGHT / 2 + 6, to_top + _HEIGHT / 2 - 6
                way = (f"M{x + wide / 2:.1f} {start:.1f} C{side:.1f} {start:.1f} {side:.1f} {end:.1f} "
                       f"{to_x + to_wide / 2:.1f} {end:.1f}")
                at = (side - _MARGIN, (start + end) / 2, "end")
            heavy = ' stroke-width="2"' if step.mode == "inclusive" else ""
            drawn.append(f'<path d="{way}" fill="none" stroke="black"{heavy} marker-end="url(#tip)"/>')
            if label_of(arc):
                drawn.append(_text(label_of(arc), *at))
    return drawn


def _text(text: str, x: float, y: float, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'

"""Pictures of a workflow."""

import xml.etree.ElementTree as ET

from shared.dsl.authoring.diagram import dot, mermaid
from shared.dsl.authoring.diagram_svg import svg
from tests.unit.dsl.check.support import plan_of

PLAN = plan_of("start => work log?x", "work -> start?y end", "log ->", "(end) ->", "lost ->")


def test_mermaid_has_every_step_and_arc() -> None:
    assert mermaid(PLAN).splitlines() == [
        "flowchart TD",
        '    s0["start: noop"]',
        '    s1["work: noop"]',
        '    s2["log: noop"]',
        '    s3(["end"])',
        '    s4["lost: noop"]',
        "    s0 ==> s1",
        '    s0 ==>|"workload.x"| s2',
        '    s1 -->|"workload.y"| s0',
        "    s1 --> s3",
    ]


def test_dot_has_every_step_and_arc() -> None:
    lines = dot(PLAN).splitlines()
    assert lines[0] == "digraph playbook {"
    assert '    "work" -> "start" [label="workload.y"];' in lines
    assert '    "start" -> "work" [label="", style=bold];' in lines
    assert '    "end" [label="end", shape=oval];' in lines
    assert lines[-1] == "}"


def test_svg_is_well_formed_and_its_boxes_do_not_overlap() -> None:
    root = ET.fromstring(svg(PLAN))
    space = "{http://www.w3.org/2000/svg}"
    boxes = [(float(box.get("x", 0)), float(box.get("y", 0)), float(box.get("width", 0)))
             for box in root.iter(f"{space}rect")]
    assert len(boxes) == len(PLAN.steps)
    for index, (x, y, width) in enumerate(boxes):
        assert 0 <= x <= x + width <= float(root.get("width", 0))
        assert all(y != other_y or x + width < other or other + wide < x
                   for other, other_y, wide in boxes[index + 1:])
    assert len([path for path in root.iter(f"{space}path") if path.get("marker-end")]) == 4

"""A step whose tool is none, and to which arcs bring arguments: a diagnostic, whatever it is."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.tools import registry


@pytest.mark.parametrize("tool", ["5", "text", "true", "1.5", "null", "[5]", "[]", "[[]]"])
def test_what_is_no_tool_is_said(tool: str) -> None:
    source = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: x, path: a/x }}
workflow:
- step: start
  tool: {{ kind: noop }}
  next: {{ arcs: [{{ step: other, args: {{ n: 1 }} }}] }}
- step: other
  tool: {tool}
"""
    compiled = compile_playbook(source.encode(), kinds=registry.specs())
    assert tool == "null" or compiled.plan is None

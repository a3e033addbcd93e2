"""What is said about a source that is not YAML fits the mistake."""

import pytest

from shared.dsl.source.load import load

HEAD = "kind: Playbook\n"


@pytest.mark.parametrize(("text", "line", "fix"), [
    ("metadata:\n  name: x\n   path: y\n", 4,
     "line 3 has a value already: indent this line by 2 as well, or give that one no value"),
    ("tool:\n      kind: python\n     code: '1'\n", 4,
     "it is indented by 5: indent it by 0 or 6, as the lines above it are"),
    ("a:\n  - step: s\n    tool:\n      kind: python\n     code: '{{ 1 }}'\n", 6,
     "it is indented by 5: indent it by 4 or 6, as the lines above it are"),
    ("a:\n  code: |\n      x = 1\n     y = 2\n", 5,
     "the text that line 3 begins is indented by 6: indent all of its lines as far"),
    ("a:\n  - step: s\n  tool: 1\n", 4, "indent it by 4 to belong to the entry of line 3, or begin another with -"),
    ("desc: a: b\n", 2, 'put quotes around a text that holds ": "'),
    ("metadata:\n\tname: x\n", 3, "indent with spaces, not with tabs"),
    ("desc: {{ x }} y\n", 2, "put quotes around a text that begins with {{"),
    ("a: [1, 2\nb: 1\n", 3, "separate by commas what the [ of line 2 holds, and close it with ]"),
    ("a: 'b\n", 3, "close the quote that line 2 opens"),
    ("a: b\n%x\n", 3, "check indentation, colons and quotes here"),
])
def test_the_fix_is_for_the_mistake_that_was_made(text: str, line: int, fix: str) -> None:
    document, (*_, found) = load(HEAD + text)
    assert document is None
    assert (found.code, found.line, found.fix) == ("DSL102", line, fix)

"""A failed call for people: its traceback names the lines of the playbook."""

from services.cli.executions.failure_lines import in_source, lines

SOURCE = """\
workflow:
- step: start
  tool:
    kind: python
    code: |
      def price(row):
          return row["cost"]
      result = price({})
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "<python 0a1b>", line 3, in <module>
    result = price({})
             ^^^^^^^^^
  File "<python 0a1b>", line 2, in price
    return row["cost"]
           ~~~^^^^^^^^
KeyError: 'cost'"""


def test_each_frame_of_the_authors_code_has_its_line_in_the_playbook() -> None:
    found = in_source({"traceback": TRACEBACK}, SOURCE)
    assert found["line"] == 7
    assert [each.strip() for each in found["traceback"].splitlines() if "File" in each] == [
        'File "<python 0a1b>", line 3, in <module> (line 8 of the playbook)',
        'File "<python 0a1b>", line 2, in price (line 7 of the playbook)',
    ]
    assert "    return row[\"cost\"]\n           ~~~^^^^^^^^" in found["traceback"]


def test_code_that_stands_there_twice_has_no_line() -> None:
    assert in_source({"traceback": TRACEBACK}, SOURCE + SOURCE) == {"traceback": TRACEBACK}


def test_one_line_stands_beside_its_title_and_several_below() -> None:
    assert list(lines({"body": "no", "stdout": "a\nb", "step": "start"})) == [
        "  the answer's body: no", "  printed:", "    a", "    b",
    ]
    assert list(lines(None)) == []

"""docs/templates.md has the filters, tests, functions and methods of the language, and each does what the page says."""

import ast
import datetime
import re

import pytest

from shared.dsl.templates.compiler import ENVIRONMENT
from shared.dsl.templates.evaluate import evaluate
from shared.dsl.templates.methods import FUNCTIONS
from shared.dsl.templates.result_view import view
from shared.dsl.templates.values import METHODS
from shared.events.outcome import Result
from tests.support import paths
from tests.support.documents import tables

FILTERS = [(row[0][0], row[1][0]) for row in tables.codes("templates.md", "Filters")]
OF = {"a text": (str,), "a list": (list, tuple), "a mapping": (dict,),
      "a date or time, which SQL gives": (datetime.datetime, datetime.date)}


def test_every_filter_is_documented_and_no_other() -> None:
    found = [re.findall(r"\| (\w+)", written)[-1] for written, _ in FILTERS]
    assert found == sorted(ENVIRONMENT.filters)


@pytest.mark.parametrize(("written", "gives"), FILTERS)
def test_a_filter_gives_what_the_page_says(written: str, gives: str) -> None:
    wanted, got = ast.literal_eval(gives), evaluate(written.replace("\\n", "\n"), {})
    assert as_lists(got) == wanted
    assert type(got) is type(wanted) or isinstance(got, tuple)


def as_lists(value: object) -> object:
    """A tuple of Jinja's is a list once it is JSON."""
    return [as_lists(each) for each in value] if isinstance(value, list | tuple) else value


def test_every_test_is_documented_and_no_other() -> None:
    found = [name for row in tables.codes("templates.md", "Tests") for name in row[0]]
    assert sorted(found) == sorted(ENVIRONMENT.tests)


def test_every_function_and_method_is_documented_and_no_other() -> None:
    page = {row[0]: set(tables.names(row[1])) for row in tables.rows("templates.md", "Functions and methods")}
    known = {of: {name for kind in kinds for name in METHODS[kind]} for of, kinds in OF.items()}
    assert page == {"nothing": set(FUNCTIONS), **known}


BODY = {"items": [1, 2], "id": 7}
SEEN = {
    "fetch": view(Result({"status_code": 200, "headers": {}, "data": BODY}, "http")),
    "query": view(Result({"rows": [{"id": 7}], "row_count": 1, "columns": ["id"]}, "sql")),
    "each": view(Result({"results": [3, 4], "count": 2, "failed": 0}, "loop")),
    "x": view(Result({"a": 1})),
}


@pytest.mark.parametrize(("written", "gives"), [
    ("{{ fetch.status_code }}", 200), ("{{ fetch.items }}", [1, 2]), ("{{ fetch.data.items }}", [1, 2]),
    ("{{ query[0].id }}", 7), ("{{ query.rows[0].id }}", 7), ("{{ query | length }}", 1), ("{{ each[0] }}", 3),
    ("{{ x.data }}", {"a": 1}), ("{{ x.result }}", {"a": 1}),
])
def test_results_are_read_as_the_page_says(written: str, gives: object) -> None:
    assert written in (paths.DOCS / "templates.md").read_text(encoding="utf-8")
    assert evaluate(written, SEEN) == gives


def test_as_a_whole_a_result_is_all_of_it() -> None:
    assert evaluate("{{ fetch }}", SEEN) == {"status_code": 200, "headers": {}, "data": BODY}
    assert evaluate("{{ each }}", SEEN) == [3, 4]
    assert evaluate("{{ query }}", SEEN) == {"rows": [{"id": 7}], "row_count": 1, "columns": ["id"]}

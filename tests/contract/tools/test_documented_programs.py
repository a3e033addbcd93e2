"""The programs of docs/dsl.md give what the page says."""

import json

import pytest

from tests.support.calls import call
from tests.support.documents import tables

PROGRAMS = [(row[0][0], row[1][0], row[2][0]) for row in tables.codes("dsl.md", "Python", "code")]


@pytest.mark.parametrize(("code", "args", "result"), PROGRAMS)
async def test_a_program_of_the_page_gives_its_result(code: str, args: str, result: str, opened) -> None:
    outcome = await opened("python").run(call({"code": code, "args": json.loads(args)}))
    assert (outcome.error, outcome.result) == (None, json.loads(result))


async def test_what_a_program_prints_is_in_its_meta(opened) -> None:
    code = next(code for code, _, result in PROGRAMS if result == "null")
    assert (await opened("python").run(call({"code": code, "args": {}}))).meta == {"stdout": "hi\n"}

"""`kind: artifact`: stored results by their references."""

from typing import Any

import pytest

from shared.dsl.templates.result_view import view
from shared.events.outcome import Result
from tests.support.calls import call

BIG = {"status": "ok", "count": 2, "items": [{"id": 1}, {"id": 2}]}


@pytest.mark.parametrize("place", ["beside", "args"])
async def test_a_reference_gives_the_value(opened, store, place) -> None:
    keys = {"result_ref": store.put(BIG)}
    outcome = await opened("artifact").run(call({"action": "get", **(keys if place == "beside" else {"args": keys})}))
    assert (outcome.error, outcome.result) == (None, BIG)


async def test_a_stored_answer_keeps_its_shape(opened, store) -> None:
    answer = {"status_code": 200, "headers": {}, "data": [1, 2]}
    outcome = await opened("artifact").run(call({"result_ref": store.put(answer, "http")}))
    assert view(Result(outcome.result, outcome.shape)).find("data") == [1, 2]


async def test_what_is_no_reference_is_its_own_value(opened) -> None:
    tool = opened("artifact")
    assert (await tool.run(call({"result_ref": BIG}))).result == BIG
    assert (await tool.run(call({"result_ref": [1]}))).result == [1]


@pytest.mark.parametrize(("path", "value"), [("items.1.id", 2), ("count", 2), ("items", BIG["items"])])
async def test_a_path_gives_a_part(opened, store, path, value) -> None:
    assert (await opened("artifact").run(call({"result_ref": store.put(BIG), "path": path}))).result == value


@pytest.mark.parametrize("path", ["gone", "items.2", "items.x", "count.a", "items.-1"])
async def test_a_part_that_is_not_there_is_an_error(opened, path) -> None:
    assert (await opened("artifact").run(call({"result_ref": BIG, "path": path}))).error["kind"] == "artifact"


async def test_a_value_that_cannot_be_had_now_may_be_had_later(opened, store) -> None:
    error = (await opened("artifact").run(call({"result_ref": store.put(BIG, lost=True)}))).error
    assert (error["kind"], error["retryable"]) == ("artifact", True)


@pytest.mark.parametrize("change", [
    {"key": "e1/../../x"}, {"key": "*/" + "0" * 64}, {"size": -1}, {"size": 1 << 40}, {"size": "x"},
    {"schema_hint": "scope"},
])
async def test_a_reference_nobody_made_is_refused(opened, store, change: dict[str, Any]) -> None:
    outcome = await opened("artifact").run(call({"result_ref": {**store.put(BIG), **change}}))
    assert outcome.error["kind"] == "config"


@pytest.mark.parametrize("config", [{"result_ref": "file:///etc/passwd"}, {"result_ref": BIG, "action": "put"}])
async def test_what_it_does_not_do_is_a_mistake(opened, config) -> None:
    assert (await opened("artifact").run(call(config))).error["kind"] == "config"

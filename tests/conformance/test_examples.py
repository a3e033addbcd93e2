"""The canonical examples of V10 §12, DSL2 §13 and PIPE, as they are written, on a real stack."""

import json
from typing import Any

import pytest

from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, Ran, rows
from tests.support.paths import EXAMPLES
from tests.support.servers.postgres import execute

pytestmark = pytest.mark.asyncio(loop_scope="module")

V10, DSL2, PIPE = (EXAMPLES / f"{name}.yaml" for name in ("v10_pagination", "dsl2_minimal", "pipe_pipeline"))
LOOP = "fetch_all_endpoints:1"
PIPELINE = "fetch_transform_store:1"


def endpoints(*paths: str) -> list[dict[str, Any]]:
    return [{"path": path, "page_size": 2} for path in paths]


def items(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(*row[:-1], json.loads(row[-1])) for row in found]


def tasks(ran: Ran, index: int = -1) -> list[tuple[str, str]]:
    """The finished tasks of an iteration and what they did."""
    return [
        (event.task, getattr(event, "do", "retry"))
        for record in ran.records
        if record.lease is not None and record.lease.index == index
        for event in record.events
        if hasattr(event, "outcome")
    ]


async def test_v10_pages_every_endpoint_and_routes_what_it_finds_by_status(lab: Lab, api: Api) -> None:
    dsn = await lab.database()
    api.pages = {"/cities": [["Oslo", "Rome"], ["Lima"], ["Pune"]], "/hotels": [[{"id": 1}], [{"id": 2}]]}
    api.broken = {("/hotels", 2): [503]}
    api.refused = {"/gone": 404, "/locked": 401}
    wanted = endpoints("/cities", "/hotels", "/gone", "/locked")
    ran = await lab.run(V10, {"api_url": api.url, "endpoints": wanted})

    assert (ran.status, list(ran.summary.steps)) == (
        "completed", ["start", "fetch_all_endpoints", "validate_results", "end"],
    )
    assert items(await rows(dsn, "SELECT * FROM results_ok ORDER BY endpoint, page")) == [
        ("/cities", 1, ["Oslo", "Rome"]), ("/cities", 2, ["Lima"]), ("/cities", 3, ["Pune"]),
        ("/hotels", 1, [{"id": 1}]), ("/hotels", 2, [{"id": 2}]),
    ]
    assert await rows(dsn, "SELECT * FROM results_not_found") == [("/gone", 1)]
    assert ran.result()["rows"] == [{"pages": 5, "missing": 1}]
    assert api.asked.count(("/hotels", 2)) == 2
    assert {query["pageSize"] for query in api.queries} == {"2"}


async def test_v10_tells_the_failed_endpoint_and_every_move_of_the_others(lab: Lab, api: Api) -> None:
    await lab.database()
    api.pages = {"/cities": [["Oslo"], ["Rome"]]}
    api.refused = {"/gone": 404, "/locked": 403}
    wanted = endpoints("/cities", "/gone", "/locked")
    ran = await lab.run(V10, {"api_url": api.url, "endpoints": wanted})

    (done,) = ran.of("loop.done")
    assert (done["count"], done["failed"], [f["index"] for f in done["failures"]]) == (3, 1, [2])
    assert done["failures"][0]["error"]["task"] == "fetch_page"
    page = [("fetch_page", "continue"), ("route_by_status", "jump"), ("store_200", "jump"), ("paginate", "jump")]
    assert tasks(ran, 0) == [("init_iter", "continue"), *page, *page[:-1], ("paginate", "break")]
    assert [name for name, _ in tasks(ran, 1)] == [
        "init_iter", "fetch_page", "route_by_status", "store_404", "paginate",
    ]
    assert tasks(ran, 2) == [("init_iter", "continue"), ("fetch_page", "fail")]
    assert ran.types(LOOP, index=0)[0] == "step.started"
    assert ran.types(LOOP, index=0)[-1] == "loop.iteration.done"
    assert ran.types(LOOP, index=2)[-1] == "loop.iteration.failed"
    assert ran.types(LOOP, "server") == [
        "step.scheduled", "loop.started", "loop.iteration.started", "loop.done", "next.selected",
    ]


async def test_v10_goes_to_cleanup_when_the_step_itself_fails(lab: Lab, api: Api) -> None:
    dsn = await lab.database()
    await execute(dsn, "CREATE TABLE results_ok (endpoint text, page int, items jsonb);"
                       "INSERT INTO results_ok VALUES ('/left', 1, '[]')")
    ran = await lab.run(V10, {"api_url": api.url, "endpoints": "not a list"})
    assert (ran.status, "cleanup" in ran.summary.steps) == ("completed", True)
    assert ran.of("next.selected", step="fetch_all_endpoints", event="step.failed", arcs=["cleanup"])
    assert await rows(dsn, "SELECT * FROM results_ok") == []


async def test_dsl2_takes_one_endpoint_after_the_other(lab: Lab, api: Api) -> None:
    dsn = await lab.database()
    api.pages = {"/cities": [["Oslo"], ["Rome"], []], "/hotels": [["Ritz"]]}
    api.broken = {("/cities", 2): [500]}
    ran = await lab.run(DSL2, {"api_url": api.url, "endpoints": endpoints("/cities", "/hotels")})
    assert ran.status == "completed"
    assert api.asked == [("/cities", 1), ("/cities", 2), ("/cities", 2), ("/cities", 3), ("/hotels", 1)]
    assert items(await rows(dsn, "SELECT * FROM pages ORDER BY endpoint, page")) == [
        ("/cities", 1, ["Oslo"]), ("/cities", 2, ["Rome"]), ("/cities", 3, []), ("/hotels", 1, ["Ritz"]),
    ]
    assert ran.result()["rows"] == [{"endpoint": "/cities", "pages": 3}, {"endpoint": "/hotels", "pages": 1}]
    assert [(e["first"], e.get("count", 1)) for e in ran.of("loop.iteration.started")] == [(0, 1), (1, 1)]


async def test_dsl2_stops_at_the_first_endpoint_that_fails_and_takes_back_what_it_wrote(lab: Lab, api: Api) -> None:
    dsn = await lab.database()
    api.pages = {"/cities": [["Oslo"]], "/hotels": [["Ritz"]]}
    api.refused = {"/gone": 404}
    ran = await lab.run(DSL2, {"api_url": api.url, "endpoints": endpoints("/cities", "/gone", "/hotels")})
    assert (ran.status, list(ran.summary.steps)) == ("completed", ["start", "fetch_transform_store", "cleanup", "end"])
    assert ("/hotels", 1) not in api.asked
    (failed,) = ran.of("step.failed")
    assert (failed["error"]["kind"], failed["error"]["index"]) == ("http", 1)
    assert await rows(dsn, "SELECT * FROM pages") == []


async def test_pipe_stores_and_goes_on_to_continue(lab: Lab, api: Api) -> None:
    dsn = await lab.database()
    api.pages = {"/data": [[1, 2]]}
    ran = await lab.run(PIPE, {"api_url": api.url})
    assert (ran.status, list(ran.summary.steps)) == ("completed", ["start", "fetch_transform_store", "continue", "end"])
    stored = {"status": 200, "payload": {"data": [1, 2], "paging": {"page": 1, "hasMore": False}}}
    assert items(await rows(dsn, "SELECT data FROM stored")) == [(stored,)]
    assert (ran.summary.ctx, ran.result()["rows"]) == ({"store_ok": True}, [{"stored": 1}])
    assert ran.types(PIPELINE) == ["step.started", *["task.started", "task.done"] * 3, "step.done"]
    assert ran.types(PIPELINE, "server") == ["step.scheduled", "ctx.patched", "next.selected"]


async def test_pipe_tries_a_serialization_failure_of_the_store_again(lab: Lab, api: Api) -> None:
    dsn = await lab.database()
    await execute(dsn, """
        CREATE TABLE stored (data jsonb);
        CREATE SEQUENCE tries;
        CREATE FUNCTION clash() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF nextval('tries') = 1 THEN RAISE EXCEPTION 'try again' USING ERRCODE = '40001'; END IF;
          RETURN NEW;
        END $$;
        CREATE TRIGGER clash BEFORE INSERT ON stored FOR EACH ROW EXECUTE FUNCTION clash();
    """)
    api.pages = {"/data": [[1]]}
    ran = await lab.run(PIPE, {"api_url": api.url})
    (retried,) = ran.of("task.retried")
    assert (retried["task"], retried["outcome"]["pg"]["code"]) == ("store", "40001")
    assert 1.8 <= retried["delay"] <= 2.2
    assert (len(api.asked), len(await rows(dsn, "SELECT * FROM stored"))) == (1, 1)
    assert "continue" in ran.summary.steps


async def test_pipe_goes_to_failed_when_the_fetch_fails(lab: Lab, api: Api) -> None:
    dsn = await lab.database()
    api.refused = {"/data": 404}
    ran = await lab.run(PIPE, {"api_url": api.url})
    assert (ran.status, list(ran.summary.steps)) == ("completed", ["start", "fetch_transform_store", "failed", "end"])
    assert ran.of("next.selected", step="fetch_transform_store", event="step.failed", arcs=["failed"])
    assert ran.types(PIPELINE) == ["step.started", "task.started", "task.done", "step.failed"]
    assert (await rows(dsn, "SELECT * FROM stored"), ran.summary.ctx) == ([], {})

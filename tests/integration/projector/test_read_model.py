import asyncpg
from msgspec.structs import astuple

from shared.answers.readmodel.entry import read
from shared.answers.readmodel.fold import fold
from shared.answers.readmodel.rows import Rows, Run
from shared.answers.readmodel.tables import KEYS, differences, tables
from shared.events import model as ev
from shared.events.outcome import Ref, Result, failed, ok
from shared.runtime.readmodel.statements import SQL
from shared.runtime.readmodel.store import cursor_of, project
from shared.runtime.readmodel.stored_rows import ITERATIONS, STEP_RUNS
from tests.integration.projector.history import Log, Story, lease, page


async def project_story(db: asyncpg.Connection, story: Story, *, one_by_one: bool = False) -> None:
    log = Log(1)
    for record in story.records:
        log.write(record)
    size = 1 if one_by_one else len(story.records)
    after = await cursor_of(db, 0)
    while batch := log.messages(0)[after : after + size]:
        await project(db, 0, 1, batch, after)
        after = batch[-1].seq


def started(execution_id: str = "e1") -> Story:
    story = Story(execution_id)
    story.begin()
    story.schedule("fetch")
    return story


async def test_an_execution_is_listed_with_its_end(db: asyncpg.Connection) -> None:
    story = Story("e1")
    story.begin("demo/flow")
    story.finish()
    await project_story(db, story)
    row = await db.fetchrow("SELECT *, finished_at - started_at AS took FROM noetl.execution")
    assert (row["path"], row["version"], row["digest"], row["status"]) == ("demo/flow", "1", "d1", "completed")
    assert (row["workload"], row["result"], row["error"]) == ('{"a": 1, "b": [1, 2]}', '{"sum": 3}', None)
    assert row["took"].total_seconds() == 1


NUMBERS = (
    1e15, 1e16, 1e17, 1e22, 1e23, 1e30, 1e100, 1.5e300, 1.7976931348623157e308, -1e25, 1e-300, 5e-324, 0.1, -0.0,
    123456789012345678, 2**63, 9007199254740993, 9007199254740993.0,
)


async def test_numbers_come_back_as_the_log_has_them(db: asyncpg.Connection) -> None:
    story = Story("e1")
    story.router(
        ev.ExecutionRequested("demo/flow", "1", {"x": NUMBERS}), ev.RequestEvaluated("d1"),
        ev.PlaybookStarted({"x": NUMBERS}), ev.WorkflowStarted(), ev.TokenCreated("t1", "start"),
    )
    story.schedule("fetch")
    told = {f"k{place}": number for place, number in enumerate(NUMBERS)}
    story.worker(lease(), ev.StepStarted(), ev.TaskStarted("fetch"), ev.TaskDone("fetch", 1, ok(told), "continue"),
                 ev.StepDone(Result(told), (told,)))
    await project_story(db, story)
    log, rows = Log(1), Rows()
    for record in story.records:
        log.write(record)
    for message in log.messages(0):
        fold(rows, read(message, 1))
    found = {table: [dict(row) for row in await db.fetch(f"SELECT * FROM noetl.{table}")] for table in KEYS}
    assert all(found[table] for table in ("execution", "event", "step_run", "task_run"))
    assert [str(each) for each in differences(tables(rows), found)] == []


async def test_a_refused_request_is_a_failed_execution(db: asyncpg.Connection) -> None:
    story = Story("e1")
    error = {"kind": "request", "message": "no such playbook"}
    story.router(
        ev.ExecutionRequested("nowhere"), ev.RequestEvaluated("", error), ev.PlaybookProcessed("failed", None, error)
    )
    await project_story(db, story)
    status, kind = await db.fetchrow("SELECT status, error ->> 'kind' FROM noetl.execution")
    assert (status, kind) == ("failed", "request")


async def test_a_record_of_a_lower_epoch_changes_no_run_in_one_batch_or_in_many(db: asyncpg.Connection) -> None:
    for name, one_by_one in (("a", False), ("b", True)):
        await db.execute("DELETE FROM noetl.cursor")
        story = started(name)
        slow, quick = lease(epoch=(10, 1)), lease(epoch=(10, 2))
        story.worker(slow, ev.StepStarted(), ev.TaskStarted("fetch"))
        story.worker(quick, ev.StepStarted(), ev.TaskStarted("fetch"))
        story.worker(slow, ev.TaskDone("fetch", 1, ok("old"), "continue"), ev.StepDone(Result("old")))
        await project_story(db, story, one_by_one=one_by_one)
        run = await db.fetchrow("SELECT * FROM noetl.step_run WHERE execution_id = $1", name)
        assert (run["status"], run["worker"], run["epoch_try"], run["claims"]) == ("running", "worker-2", 2, 2)
        assert (run["task"], run["result"], run["finished_at"]) == ("fetch", None, None)
        query = "SELECT epoch_try, status FROM noetl.task_run WHERE execution_id = $1 ORDER BY epoch_try"
        assert [tuple(row) for row in await db.fetch(query, name)] == [(1, "lost"), (2, "running")]
        query = "SELECT count(*) FROM noetl.event WHERE execution_id = $1 AND event_type = 'step.done'"
        assert await db.fetchval(query, name) == 1


async def test_the_epoch_fence_holds_in_the_database_itself(db: asyncpg.Connection) -> None:
    for table, index in (("step_run", -1), ("iteration", 0)):
        for epoch, worker in (((10, 2), "holder"), ((10, 1), "zombie"), ((9, 9), "zombie")):
            ns, attempt = epoch
            run = Run("e1", "r:1", index, status="running", worker=worker, epoch_ns=ns, epoch_try=attempt)
            if worker == "holder":
                await (STEP_RUNS if index < 0 else ITERATIONS).insert(db, [run])
            await db.execute(SQL[f"update_{table}s"], *([value] for value in astuple(run)))
        assert await db.fetchval(f"SELECT worker FROM noetl.{table}") == "holder"


async def test_a_record_after_the_end_changes_nothing(db: asyncpg.Connection) -> None:
    story = started()
    story.worker(lease(), ev.StepStarted(), ev.StepDone(Result("first")))
    story.worker(lease(epoch=(10, 2)), ev.StepStarted(), ev.StepFailed({"kind": "late"}))
    story.finish()
    story.router(ev.PlaybookProcessed("failed", None, {"kind": "late"}))
    await project_story(db, story, one_by_one=True)
    run = await db.fetchrow("SELECT status, result, error, claims FROM noetl.step_run")
    assert tuple(run) == ("done", '"first"', None, 1)
    assert tuple(await db.fetchrow("SELECT status, error FROM noetl.execution")) == ("completed", None)


async def test_a_record_published_twice_counts_once(db: asyncpg.Connection) -> None:
    story = started()
    began, ended = page(1)
    twice = story.worker(lease(), ev.StepStarted(), began)
    story.worker(lease(), ended)
    story.records.append(twice)
    await project_story(db, story, one_by_one=True)
    assert tuple(await db.fetchrow("SELECT claims, task FROM noetl.step_run")) == (1, "")
    assert [row["status"] for row in await db.fetch("SELECT status FROM noetl.task_run")] == ["done"]
    assert await db.fetchval("SELECT count(*) FROM noetl.corrupt") == 0


async def test_a_task_whose_end_was_never_reported_is_lost(db: asyncpg.Connection) -> None:
    story = started()
    story.worker(lease(), ev.StepStarted(), ev.TaskStarted("a"), ev.TaskDone("b", 1, ok(), "continue"))
    await project_story(db, story)
    rows = await db.fetch("SELECT task, status FROM noetl.task_run ORDER BY n")
    assert [tuple(row) for row in rows] == [("a", "lost"), ("b", "done")]


async def test_every_page_of_a_pagination_is_a_task_run_of_its_own(db: asyncpg.Connection) -> None:
    story = started()
    story.worker(lease(), ev.StepStarted(), *page(1))
    story.worker(lease(), *page(2, bad=True))
    story.worker(lease(), ev.TaskStarted("fetch", 2))
    story.worker(lease(), ev.TaskDone("fetch", 2, failed("http", "404"), "fail"))
    await project_story(db, story, one_by_one=True)
    rows = await db.fetch("SELECT * FROM noetl.task_run ORDER BY n")
    assert [(row["status"], row["directive"], row["target"], row["attempt"]) for row in rows] == [
        ("done", "jump", "fetch", 1), ("retried", "retry", "", 1), ("failed", "fail", "", 2)
    ]  # fmt: skip
    assert [row["delay_s"] for row in rows] == [0.0, 0.5, 0.0]
    assert (rows[2]["finished_at"] - rows[2]["started_at"]).total_seconds() == 1
    ids = [row["task_run_id"] for row in await db.fetch("SELECT DISTINCT task_run_id FROM noetl.event")]
    assert {row["task_run_id"] for row in rows} == set(ids) - {None} == {"fetch:1/fetch/1", "fetch:1/fetch/2"}


async def test_a_step_without_tools_ends_with_its_routing(db: asyncpg.Connection) -> None:
    story = Story("e1")
    story.router(ev.StepScheduled("end:1", "end"), ev.NextSelected("end:1", "end", "step.done"))
    await project_story(db, story)
    row = await db.fetchrow("SELECT status, pool, finished_at IS NOT NULL FROM noetl.step_run")
    assert tuple(row) == ("done", "", True)


async def test_the_routers_verdict_stands_over_a_workers(db: asyncpg.Connection) -> None:
    story = started()
    story.worker(lease(), ev.StepStarted(), ev.StepDone(Result(1)))
    story.router(ev.NextSelected("fetch:1", "fetch", "step.failed"))
    await project_story(db, story, one_by_one=True)
    assert await db.fetchval("SELECT status FROM noetl.step_run") == "failed"


async def test_a_large_result_is_shown_by_its_reference(db: asyncpg.Connection) -> None:
    story = started()
    checksum = "ab" * 32
    ref = Ref("nats", f"e1/{checksum}", checksum, 9_000_000, "http")
    story.worker(lease(), ev.StepStarted(), ev.StepDone(Result(None, "http", ref)))
    await project_story(db, story)
    row = await db.fetchrow("SELECT result, result_ref ->> 'key' FROM noetl.step_run")
    assert tuple(row) == (None, f"e1/{checksum}")


async def test_ctx_holds_patched_values_and_reduced_ones(db: asyncpg.Connection) -> None:
    story = started()
    for number in (1, 2, 3):
        story.router(ev.CtxPatched("fetch:1", {"total": {"$add": number}, "last": number}))
    await project_story(db, story, one_by_one=True)
    rows = await db.fetch("SELECT key, value, updated_seq FROM noetl.ctx ORDER BY key")
    assert [tuple(row) for row in rows] == [("last", "3", 5), ("total", "6", 5)]


def looped(count: int) -> Story:
    story = Story("e1")
    story.schedule("each", loop=True)
    story.scheduler(ev.LoopStarted("each:1", "each", count, list(range(count)), max_in_flight=2))
    story.scheduler(ev.IterationStarted("each:1", 0, 2))
    for index in (0, 1):
        story.worker(lease("each", (20, 1), index), ev.StepStarted(), ev.TaskStarted("work"))
    return story


async def test_a_loop_counts_its_iterations(db: asyncpg.Connection) -> None:
    story = looped(3)
    story.worker(lease("each", (20, 1), 0), ev.TaskDone("work", 1, ok(), "continue"), ev.IterationDone())
    story.worker(lease("each", (20, 1), 1), ev.IterationFailed({"kind": "http"}))
    await project_story(db, story, one_by_one=True)
    row = await db.fetchrow("SELECT status, count, started, done, failed FROM noetl.loop")
    assert tuple(row) == ("running", 3, 2, 1, 1)
    story.scheduler(ev.IterationFailed({"kind": "ctx_conflict"}, run_id="each:1", index=0))
    await project_story(db, story)
    assert tuple(await db.fetchrow("SELECT done, failed FROM noetl.loop")) == (0, 2)
    story.scheduler(ev.LoopDone("each:1", "each", Result([]), 3, 2))
    await project_story(db, story)
    assert tuple(await db.fetchrow("SELECT status, done, failed FROM noetl.loop")) == ("done", 1, 2)
    assert await db.fetchval("SELECT status FROM noetl.step_run") == "done"


async def test_a_failed_loop_cancels_what_still_runs(db: asyncpg.Connection) -> None:
    story = looped(2)
    story.worker(lease("each", (20, 1), 0), ev.IterationFailed({"kind": "http"}))
    story.scheduler(ev.StepFailed({"kind": "http"}, run_id="each:1", step="each"))
    story.worker(lease("each", (20, 1), 1), ev.TaskDone("work", 1, ok(), "continue"), ev.IterationDone())
    await project_story(db, story, one_by_one=True)
    rows = await db.fetch("SELECT iteration, status, task FROM noetl.iteration ORDER BY iteration")
    assert [tuple(row) for row in rows] == [(0, "failed", ""), (1, "cancelled", "")]
    assert {row["status"] for row in await db.fetch("SELECT status FROM noetl.task_run")} == {"lost"}
    assert tuple(await db.fetchrow("SELECT status, done, failed FROM noetl.loop")) == ("failed", 0, 1)
    assert await db.fetchval("SELECT status FROM noetl.step_run") == "failed"


async def test_a_cancelled_step_shows_it(db: asyncpg.Connection) -> None:
    story = started()
    story.worker(lease(), ev.StepStarted(), ev.TaskStarted("fetch"))
    story.router(ev.StepCancelled("fetch:1", "fetch", "the execution failed"))
    await project_story(db, story, one_by_one=True)
    assert tuple(await db.fetchrow("SELECT status, task FROM noetl.step_run")) == ("cancelled", "")
    assert await db.fetchval("SELECT status FROM noetl.task_run") == "lost"

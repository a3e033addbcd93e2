"""Schedules and triggers on a real stack, handled with noetlctl: times and messages start executions."""

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import structlog

from services.cli import main
from services.cli.console import exits, run_async
from services.cli.console.exits import CliError
from services.cli.executions.records import history
from services.cli.stack import context
from services.cli.stack.embedded import SERVICES
from shared.answers.history.summary import Summary
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.dsl.compile import compile_playbook
from shared.errors import NoetlError
from shared.events import subjects
from shared.runtime.embedded.stack import Options, Stack
from shared.runtime.service import logging
from shared.runtime.service.main import connect
from shared.runtime.stores import catalog
from shared.runtime.stores import schedules as store_schedules
from shared.tools import registry
from tests.conformance.test_sub_playbooks import book
from tests.support.waiting import until

QUICK = book("time/quick", "- step: start\n  tool: {kind: noop, args: {got: '{{ workload }}'}}\n")
SLOW = book("time/slow", "- step: start\n  tool: {kind: wait, for: 5m}\n")
WITHIN_S = 20.0


class Home:
    """A stack in a folder, without PostgreSQL, and noetlctl for it."""

    def __init__(self, folder: Path, stack: Stack, bus: JetStreamBus) -> None:
        self.folder, self.stack, self.bus = folder, stack, bus

    async def call(self, *args: str) -> tuple[int, str]:
        """noetlctl in this event loop: exit code, and what it says on both streams."""
        said = io.StringIO()
        everything = [*args, "--context", str(self.folder / context.FILE_NAME)]
        with mock.patch.object(run_async, "run", lambda work: work), redirect_stdout(said), redirect_stderr(said):
            try:
                code: int = await main.cli.main(everything, prog_name="noetlctl", standalone_mode=False)
            except CliError as error:
                return error.code, f"{said.getvalue()}{error}"
            except NoetlError as error:
                return exits.ERROR, f"{said.getvalue()}{error}"
        return code, said.getvalue()

    async def ok(self, *args: str) -> str:
        code, said = await self.call(*args)
        assert code == 0, said
        return said

    async def apply(self, kind: str, name: str, path: str, spec: dict[str, Any]) -> str:
        document = {"apiVersion": "noetl.io/v2", "kind": kind.title(), "metadata": {"name": name},
                    "spec": {"playbook": {"path": path}, **spec}}
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps(document), encoding="utf-8")
        return await self.ok(kind, "apply", "-f", str(file))

    async def register(self, source: str) -> None:
        plan = compile_playbook(source, kinds=registry.specs()).plan
        assert plan is not None
        await catalog.register(self.bus, source.encode(), plan)

    async def requests(self, path: str) -> list[dict[str, Any]]:
        stored = await self.bus.read(topology.REQUESTS, [subjects.DERIVED])
        return [asked for each in stored if (asked := msgspec.json.decode(each.data))["path"] == path]

    async def started(self, path: str) -> list[Summary]:
        """What the log says of every execution asked for, in the order they were asked for."""
        found = []
        for execution_id in dict.fromkeys(asked["execution_id"] for asked in await self.requests(path)):
            summary = Summary(execution_id)
            for record in await history(self.bus, execution_id, self.stack.options.partitions):
                summary.apply(record)
            found.append(summary)
        return found


@asynccontextmanager
async def home(folder: Path) -> AsyncIterator[Home]:
    with (folder / "services.log").open("a", encoding="utf-8") as file:
        logging.configure("info", file)
        try:
            async with Stack(Options(folder, drain_s=5.0), SERVICES) as stack:
                await stack.ready()
                users, url = stack.server.passwords, stack.server.url
                context.write(folder, context.Context(nats_url=url, users=users, partitions=stack.options.partitions))
                bus = await connect("time", stack.settings_for("admin"))
                try:
                    yield Home(folder, stack, bus)
                finally:
                    await bus.close()
        finally:
            structlog.reset_defaults()


async def test_an_interval_schedule_fires_over_a_stop_of_the_whole_stack(tmp_path: Path) -> None:
    async with home(tmp_path) as here:
        await here.register(QUICK)
        playbook = {"path": "time/quick", "payload": {"at": "{{ schedule.unix }}"}}
        spec = {"playbook": playbook, "every": 1, "catch_up": "all"}
        assert await here.apply("schedule", "tick", "", spec) == "created schedule tick\n"
        await until(lambda: here.requests("time/quick"), "two requests", WITHIN_S, so=lambda found: len(found) >= 2)
    stopped = time.time()
    await asyncio.sleep(2.5)
    async with home(tmp_path) as here:
        await until(lambda: here.requests("time/quick"), "one for a time after the stop", WITHIN_S,
                    so=lambda found: any(asked["payload"]["at"] > stopped + 3 for asked in found))
        assert await here.ok("schedule", "pause", "tick") == "paused schedule tick\n"
        await asyncio.sleep(1.2)
        done = await here.started("time/quick")
        times = [summary.workload["at"] for summary in done]
        assert times == list(range(times[0], times[0] + len(times)))
        assert [summary.status for summary in done] == ["completed"] * len(done)
        (listed,) = json.loads(await here.ok("schedule", "list", "-o", "json"))
        assert (listed["name"], listed["when"], listed["paused"]) == ("tick", "every 1s", True)
        assert "started" in await here.ok("schedule", "describe", "tick")
        await here.ok("schedule", "delete", "tick")
        assert (await here.call("schedule", "describe", "tick"))[0] == exits.NOT_FOUND


async def test_the_next_time_cancels_what_runs(tmp_path: Path) -> None:
    async with home(tmp_path) as here:
        await here.register(SLOW)
        await here.apply("schedule", "slow", "time/slow", {"every": 2, "overlap": "cancel"})
        await until(lambda: here.started("time/slow"), "one is cancelled", WITHIN_S,
                    so=lambda found: any(summary.status == "cancelled" for summary in found))
        await here.apply("schedule", "slow", "time/slow", {"every": 2, "overlap": "skip", "paused": True})
        first, *_, last = await here.started("time/slow")
        assert first.status == "cancelled"
        assert last.status in ("pending", "running")


async def test_messages_start_executions_once_per_key(tmp_path: Path) -> None:
    async with home(tmp_path) as here:
        await here.register(QUICK)
        code, said = await here.call("trigger", "apply", "-f", _trigger_file(tmp_path, "ORDERS"))
        assert (code, "there is no stream 'ORDERS'" in said) == (1, True)
        await here.bus.requests.api("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"]})
        await here.bus.append("orders.new", b'{"id": 0, "total": 50}')  # before the trigger: none of its business
        await here.ok("trigger", "apply", "-f", _trigger_file(tmp_path, "ORDERS"))
        for number, total in ((1, 20), (2, 5), (1, 30), (3, 40), (4, "much")):
            await here.bus.append("orders.new", json.dumps({"id": number, "total": total}).encode())
        await until(lambda: here.started("time/quick"), "both are done", WITHIN_S,
                    so=lambda done: [summary.status for summary in done] == ["completed"] * 2)
        assert [summary.workload for summary in await here.started("time/quick")] == [
            {"order": 1, "kind": "orders.new"}, {"order": 3, "kind": "orders.new"},
        ]
        dead = [subjects.dead("triggers", ">")]
        buried = await until(lambda: here.bus.read(topology.DEAD, dead), "a dead letter", WITHIN_S)
        assert b"much" in buried[0].data
        info = await here.bus.requests.api("CONSUMER.INFO.ORDERS.noetl_trigger_orders")
        assert (info["num_ack_pending"], info["num_pending"]) == (0, 0)
        assert "orders.new" in await here.ok("trigger", "list")
        await here.ok("trigger", "delete", "orders")
        assert (await here.bus.requests.api("CONSUMER.NAMES.ORDERS"))["consumers"] == []
        assert (await here.call("trigger", "delete", "orders"))[0] == exits.NOT_FOUND


def _trigger_file(folder: Path, stream: str) -> str:
    file = folder / "orders.yaml"
    file.write_text(f"""\
apiVersion: noetl.io/v2
kind: Trigger
metadata: {{name: orders}}
spec:
  subject: orders.new
  stream: {stream}
  playbook: {{path: time/quick}}
  filter: "{{{{ message.data.total > 10 }}}}"
  mapping: {{order: "{{{{ message.data.id }}}}", kind: "{{{{ message.subject }}}}"}}
  dedupe: "{{{{ message.data.id }}}}"
  concurrency: {{max: 2}}
""", encoding="utf-8")
    return str(file)


async def test_a_core_subject_starts_executions(tmp_path: Path) -> None:
    async with home(tmp_path) as here:
        await here.register(QUICK)
        await here.apply("trigger", "bell", "time/quick", {"subject": "bell.*", "dedupe": "{{ message.data }}"})

        async def heard() -> list[Summary]:
            await here.bus.publish("bell.front", b'"ring"')
            return [summary for summary in await here.started("time/quick") if summary.status == "completed"]

        (only,) = await until(heard, "the bell starts one", WITHIN_S)
        assert only.workload["message"] == {"subject": "bell.front", "data": "ring", "headers": {}}
        entries = await store_schedules.everything(here.bus, "Trigger")
        assert list(entries) == ["bell"]


async def test_validate_and_next_need_no_stack(tmp_path: Path) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text("""\
apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: nightly}
spec: {playbook: {path: a/b}, cron: '30 2 29 2 *', timezone: Europe/Berlin}
""", encoding="utf-8")
    here = Home(tmp_path, None, None)  # type: ignore[arg-type]  # neither is used
    said = await here.ok("schedule", "next", "-f", str(file), "-n", "2")
    times = [line.split("  ")[1] for line in said.splitlines()[1:]]
    assert times == ["2028-02-29 02:30:00+01:00", "2032-02-29 02:30:00+01:00"]
    file.write_text(file.read_text().replace("30 2", "90 2"), encoding="utf-8")
    code, said = await here.call("schedule", "apply", "-f", str(file))
    assert code == exits.INVALID
    assert "DSL204" in said

"""A whole stack of processes under attack: as whom, and what must not have happened to it."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from shared.bus.jetstream import JetStreamBus, connect
from tests.support.pool_ctl import Ctl, stack_in
from tests.support.processes import children
from tests.support.waiting import wait_until

T = TypeVar("T")
SERVICES = re.compile(r"services\.(router|scheduler|pools|worker)\b")
PLAIN = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: plain, path: attacked/plain}
workflow: [{step: start, tool: {kind: noop}}]
"""


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctl]:
    with stack_in(tmp_path_factory.mktemp("attacked")) as ctl:
        register(ctl, "plain", PLAIN)
        wait_until(lambda: bool(ctl.json("get", "workers")), "a worker is there")
        yield ctl


@pytest.fixture(autouse=True)
def unharmed(ctl: Ctl) -> Iterator[None]:
    """No service, and no worker, is another process after the attack; an execution begins and ends as ever."""
    before = processes(ctl)
    assert set(before.values()) == {"router", "scheduler", "pools", "worker"}
    yield
    ctl.completed(start(ctl, "attacked/plain"))
    assert processes(ctl) == before


def processes(ctl: Ctl) -> dict[int, str]:
    found, parents = {}, [ctl.up.process.pid]
    while parents:
        for pid, line in children(parents.pop()).items():
            parents.append(pid)
            if (service := SERVICES.search(line)) is not None:
                found[pid] = service[1]
    return found


def register(ctl: Ctl, name: str, source: str) -> None:
    file = ctl.folder / f"{name}.yaml"
    file.write_text(source)
    code, _, err = ctl("register", str(file))
    assert code == 0, err


def start(ctl: Ctl, path: str) -> str:
    code, out, err = ctl("execute", path)
    assert code == 0, err
    return out.strip()


def as_user(ctl: Ctl, user: str, work: Callable[[JetStreamBus], Awaitable[T]]) -> T:
    async def run() -> T:
        context = ctl.up.context
        bus = await connect(context["nats_url"], user=user, password=context["users"][user])
        try:
            return await work(bus)
        finally:
            await bus.close()

    return asyncio.run(run())


def letters(ctl: Ctl, origin: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = ctl.json("dlq", "list", "--origin", origin, "--limit", "1000")
    return found


def told(ctl: Ctl, check: str) -> str:
    """What `doctor` found there."""
    code, out, err = ctl("doctor", "-o", "json")
    assert code in (0, 1), err
    found: str = next(each["found"] for each in json.loads(out)["checks"] if each["name"] == check)
    return found

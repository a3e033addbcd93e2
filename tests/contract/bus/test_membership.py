"""Partitions are shared by the live members of a service."""

import asyncio

from shared.bus.membership import SILENCE_S, Membership, owner_of
from shared.runtime.service.clock import SystemClock
from tests.contract.bus.conftest import Connect
from tests.support.waiting import until

ALL = frozenset(range(16))


async def test_members_share_all_partitions_and_take_over_when_one_leaves(connect_as: Connect) -> None:
    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    buses = [await connect_as("router") for _ in range(3)]
    members = [
        Membership(bus, "router", f"r{i}", len(ALL), SystemClock(), changed) for i, bus in enumerate(buses)
    ]
    await members[0].start()
    assert members[0].owned == ALL
    await asyncio.gather(members[1].start(), members[2].start())
    await until(lambda: sum(len(m.owned) for m in members), "one owner each", 2, so=lambda n: n == len(ALL))
    assert frozenset().union(*(m.owned for m in members)) == ALL
    assert changes >= 3
    await members[2].stop()
    await until(lambda: ALL - members[0].owned - members[1].owned, "the others own all", 0.5, so=lambda left: not left)
    assert members[0].members == {"r0", "r1"}
    await asyncio.gather(members[0].stop(), members[1].stop())


async def test_a_silent_member_is_forgotten(connect_as: Connect) -> None:
    buses = [await connect_as("router") for _ in range(2)]
    first = Membership(buses[0], "router", "r0", len(ALL), SystemClock(), lambda: None)
    await first.start()
    await buses[1].publish("noetl.members.router", b'{"instance": "ghost", "kind": "here"}')
    await until(lambda: first.owned != ALL, "the ghost owns some", 1)
    await until(lambda: ALL - first.owned, "the ghost is forgotten", SILENCE_S + 2, so=lambda left: not left)
    await first.stop()


async def test_an_unreadable_notice_is_passed_over(connect_as: Connect) -> None:
    bus = await connect_as("router")
    member = Membership(bus, "router", "r0", 4, SystemClock(), lambda: None)
    await member.start()
    await bus.publish("noetl.members.router", b"{")
    await bus.publish("noetl.members.router", b'{"instance": "r1", "kind": "here"}')
    await until(lambda: member.members, "r1 is a member", 1, so=lambda names: "r1" in names)
    await member.stop()


def test_a_member_that_leaves_moves_only_its_own_partitions() -> None:
    before = {p: owner_of(p, ["a", "b", "c"]) for p in range(64)}
    after = {p: owner_of(p, ["b", "a"]) for p in range(64)}
    assert all(after[p] == owner for p, owner in before.items() if owner != "c")
    assert {"a", "b", "c"} == set(before.values())

"""What writers of one subject are told on three replicas."""

import asyncio
from collections import Counter

from shared.bus.jetstream import JetStreamBus
from shared.bus.topology import COMMANDS
from shared.errors import Conflict, Duplicate, NoetlError
from shared.events import subjects

ROUNDS = 200


async def _told(bus: JetStreamBus, subject: str, expected: int) -> tuple[str, int]:
    try:
        return "stored", await bus.append(subject, b"x", expected=expected)
    except NoetlError as error:
        return type(error).__name__, 0


async def test_of_writers_that_expect_the_same_one_is_stored_and_the_others_conflict(buses: list[JetStreamBus]) -> None:
    subject, last, told = "noetl.events.0.two-writers.router", 0, Counter[str]()
    for _ in range(ROUNDS):
        answers = await asyncio.gather(*(_told(bus, subject, last) for bus in buses))
        told.update(word for word, _ in answers)
        assert sum(word == "stored" for word, _ in answers) <= 1
        last = max([seq for _, seq in answers if seq], default=last)
    assert set(told) == {"stored", "Conflict"}, told
    assert told["stored"] == ROUNDS


async def test_one_writer_never_conflicts_with_itself(buses: list[JetStreamBus]) -> None:
    last = 0
    for _ in range(ROUNDS * 2):
        last = await buses[0].append("noetl.events.1.one-writer.router", b"x", expected=last)


async def test_two_publishers_of_one_message_id_both_know_that_it_is_there(buses: list[JetStreamBus]) -> None:
    for number in range(ROUNDS):
        subject = f"{subjects.EVENTS}.2.same-id-{number}.router"
        sends = (bus.append(subject, b"x", headers={"Nats-Msg-Id": subject}) for bus in buses)
        assert len(set(await asyncio.gather(*sends))) == 1


async def test_a_second_command_of_a_subject_is_a_duplicate(buses: list[JetStreamBus]) -> None:
    for number in range(ROUNDS // 4):
        subject = f"{subjects.commands_of('default').removesuffix('>')}e.twice-{number}"
        answers = await asyncio.gather(*(bus.append(subject, b"x") for bus in buses), return_exceptions=True)
        kinds = Counter(type(answer).__name__ for answer in answers)
        assert kinds == {"int": 1, Duplicate.__name__: 2}, answers
    await buses[0].requests.api(f"STREAM.PURGE.{COMMANDS}")


async def test_a_key_is_made_by_one_of_many(buses: list[JetStreamBus]) -> None:
    for number in range(ROUNDS // 4):
        puts = (bus.kv_put("noetl_limits", f"made-{number}", b"x", expected=0) for bus in buses)
        answers = await asyncio.gather(*puts, return_exceptions=True)
        kinds = Counter(type(answer).__name__ for answer in answers)
        assert kinds == {"int": 1, Conflict.__name__: 2}, answers

"""Somebody floods the dead letters: with requests, with messages of a trigger. Letters that others cause stay, and
`doctor` says that some were left out."""

from shared.bus.jetstream import JetStreamBus
from shared.events import subjects
from shared.runtime.control.letter_quota import MAX_LETTERS, MAX_REQUESTS
from tests.support.attacked import as_user, ctl, letters, told, unharmed
from tests.support.pool_ctl import Ctl
from tests.support.waiting import wait_until

__all__ = ["ctl", "unharmed"]
SOON_S = 60.0
FLOOD = 10_500
TRIGGER = """apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: flooded}
spec:
  playbook: {path: attacked/plain}
  subject: flooded.new
  mapping: {id: "{{ message.data.id }}"}
"""


def flood(ctl: Ctl, user: str, subject: str, count: int) -> None:
    async def attack(bus: JetStreamBus) -> None:
        for _ in range(count):
            bus.connection.write(b"PUB %b 1\r\nx\r\n" % subject.encode())
        await bus.connection.flush()

    as_user(ctl, user, attack)


def test_a_flood_of_requests_pushes_out_nobody_elses_letters(ctl: Ctl) -> None:
    flood(ctl, "worker_default", "noetl.events.0.x.worker.default", 3)
    flood(ctl, "worker_default", "$KV.noetl_workers.default.nobody", 1)
    wait_until(lambda: len(letters(ctl, "records")) == 3 and len(letters(ctl, "workers")) == 1, "letters", SOON_S)
    before = letters(ctl, "records") + letters(ctl, "workers")
    flood(ctl, "admin", subjects.EXECUTE, FLOOD)

    async def waiting(bus: JetStreamBus) -> int:
        info = await bus.requests.api("CONSUMER.INFO.NOETL_REQUESTS.router")
        return int(info["num_ack_pending"]) + int(info["num_pending"])

    wait_until(lambda: len(letters(ctl, "requests")) >= MAX_REQUESTS, "there are letters of requests", SOON_S)
    wait_until(lambda: as_user(ctl, "admin", waiting), "all are handled", SOON_S, so=lambda left: left == 0)
    assert letters(ctl, "records") + letters(ctl, "workers") == before
    assert len(letters(ctl, "requests")) == MAX_REQUESTS
    assert f"left out: over {MAX_REQUESTS} letters of requests in an hour" in told(ctl, "lag.dead_letters")


def test_a_flood_of_a_triggers_messages_has_a_quota_of_its_own(ctl: Ctl) -> None:
    file = ctl.folder / "flooded.yaml"
    file.write_text(TRIGGER)
    assert ctl("trigger", "apply", "-f", str(file))[0] == 0
    wait_until(lambda: flood(ctl, "admin", "flooded.new", 1) or letters(ctl, "triggers"), "the trigger hears", SOON_S)
    flood(ctl, "admin", "flooded.new", 2 * MAX_LETTERS)
    wait_until(lambda: told(ctl, "lag.dead_letters"), "doctor says so", SOON_S,
               so=lambda found: f"over {MAX_LETTERS} letters of triggers of flooded in an hour" in found)
    assert len(letters(ctl, "triggers")) == MAX_LETTERS

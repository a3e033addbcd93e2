"""Subjects that are no text, from a worker's user, a client and whoever may publish where a trigger listens: nobody is
deaf by them, each is a dead letter, and `doctor` names it."""

import time

from shared.bus.jetstream import JetStreamBus
from tests.support.attacked import as_user, ctl, letters, start, told, unharmed
from tests.support.pool_ctl import Ctl
from tests.support.waiting import wait_until

__all__ = ["ctl", "unharmed"]
SOON_S = 20.0
QUICK_S = 5.0
RECORDS = 80
TOKENS = (b"\xff0", b"\xff\xfe\x80x", b"a\xc3", b"a\x0bb", b"a\x0cb", b"a\x00b", b"a\x1b]52;c;eA==\x07b")
TRIGGER = """apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: any}
spec:
  playbook: {path: attacked/plain}
  subject: ext.>
  mapping: {text: "{{ message.subject }}"}
"""


def shoot(ctl: Ctl, user: str, subjects: list[bytes], data: bytes = b"{}") -> None:
    async def attack(bus: JetStreamBus) -> None:
        for subject in subjects:
            bus.connection.write(b"PUB %b %d\r\n%b\r\n" % (subject, len(data), data))
        await bus.connection.flush()

    as_user(ctl, user, attack)


def ends_quickly(ctl: Ctl) -> None:
    before = time.monotonic()
    ctl.completed(start(ctl, "attacked/plain"))
    assert time.monotonic() - before < QUICK_S


def test_records_under_subjects_that_are_no_text(ctl: Ctl) -> None:
    """Each once broke the connection of router and scheduler, and they came no further than to the next."""
    shoot(ctl, "worker_default", [
        b"noetl.events.%d.%b%d.%b.default" % (number % 4, token, number, writer)
        for number, token in enumerate(TOKENS * (RECORDS // len(TOKENS)))
        for writer in (b"worker", b"waiting")[number % 2:][:1]
    ])
    ends_quickly(ctl)
    count = len(TOKENS) * (RECORDS // len(TOKENS))
    wait_until(lambda: len(letters(ctl, "records")), "each is a letter", SOON_S, so=lambda found: found >= count)
    found = told(ctl, "lag.dead_letters")
    assert all(f"records {each['place']}: " in found for each in letters(ctl, "records")[-50:])
    assert found.isprintable() or "\n" in found


def test_beats_under_such_keys(ctl: Ctl) -> None:
    shoot(ctl, "worker_default", [b"$KV.noetl_workers.default.%b" % token for token in TOKENS])
    ends_quickly(ctl)
    wait_until(lambda: len(letters(ctl, "workers")), "each is a letter", SOON_S, so=lambda found: found >= len(TOKENS))


def test_requests_under_such_subjects(ctl: Ctl) -> None:
    shoot(ctl, "admin", [b"noetl.requests.%b" % token for token in TOKENS])
    ends_quickly(ctl)
    wait_until(lambda: len(letters(ctl, "requests")), "each is a letter", SOON_S, so=lambda found: found >= len(TOKENS))
    assert all("no router takes requests of this subject" in each["reason"] for each in letters(ctl, "requests"))


def test_a_trigger_hears_what_comes_after_such_a_subject(ctl: Ctl) -> None:
    file = ctl.folder / "any.yaml"
    file.write_text(TRIGGER)
    assert ctl("trigger", "apply", "-f", str(file))[0] == 0
    others = _executions(ctl)
    wait_until(lambda: (shoot(ctl, "admin", [b"ext.warm"]) or _executions(ctl) > others), "the trigger hears", SOON_S)
    before = wait_until_still(ctl)
    shoot(ctl, "admin", [b"ext.good1", *(b"ext.%b" % token for token in TOKENS), b"ext.good2"])
    wanted = before + len(TOKENS) + 2
    wait_until(lambda: _executions(ctl), "all fire", SOON_S, so=lambda found: found >= wanted)


def _executions(ctl: Ctl) -> int:
    return len(ctl.json("get", "executions", "--limit", "500"))


def wait_until_still(ctl: Ctl) -> int:
    """What was sent to see whether the trigger hears has fired by now."""
    seen = [_executions(ctl)]

    def look() -> bool:
        time.sleep(1.0)
        seen.append(_executions(ctl))
        return seen[-1] == seen[-2]

    wait_until(look, "all have fired", SOON_S)
    return seen[-1]

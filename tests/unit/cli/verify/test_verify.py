"""noetlctl verify on logs in memory: proofs, violations, what cannot be verified, and everything at once."""

import json
import re
from datetime import datetime, timedelta
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from services.cli.commands import verify
from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.verify import checker
from services.cli.verify.checker import Checker, everything
from services.cli.verify.text import totals
from shared.answers.verify.verify import Rule
from shared.bus import topology
from shared.bus.memory.bus import MemoryBus
from shared.events import model as ev
from shared.events import subjects
from tests.support.cli import noetlctl
from tests.support.paths import ROOT
from tests.support.planted import PARTITIONS, planted, put
from tests.unit.answers.histories import CHAIN, LARGE, PARALLEL, at, good_day, history, simulated, stored_values
from tests.unit.answers.verify.test_corrupted_histories import CORRUPTED

__all__ = ["simulated"]

PROOF = {
    "writers", "decisions", "numbering", "tokens", "runs", "reports", "tasks", "loops", "waits", "children",
    "places", "ctx",
}
KEYS = {
    "execution_id", "verdict", "path", "status", "first", "last", "last_at", "proof", "projection", "violations",
    "reason",
}


def checker_of(bus: MemoryBus) -> Checker:
    return Checker(bus, PARTITIONS, None, 0.0)


async def shown(bus: MemoryBus, execution_id: str, capsys: pytest.CaptureFixture[str], most: int | None = 1) -> Any:
    code = await verify.verify_one(checker_of(bus), execution_id, "json", most)
    return code, json.loads(capsys.readouterr().out)


async def everyone() -> MemoryBus:
    return await planted(good_day()[0], stored_values())


async def test_proof_counts_what_was_proved(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = await shown(await everyone(), PARALLEL, capsys)
    assert (code, found["verdict"], found["status"], found["violations"]) == (exits.OK, "verified", "completed", [])
    assert (set(found), set(found["proof"])) == (KEYS, PROOF)
    proof, entries = found["proof"], history(PARALLEL)
    assert sum(count["records"] for count in proof["writers"].values()) == len(entries)
    assert sum(count["events"] for count in proof["writers"].values()) == sum(len(r.events) for _, r in entries)
    assert proof["decisions"] == {
        writer: sum(record.writer == writer for _, record in entries) for writer in ("router", "scheduler")
    }
    assert proof["tokens"] == {"made": 2, "entered": 2, "rejected": 0, "absorbed": 0, "left": 0}
    assert (proof["runs"]["scheduled"], proof["runs"]["ended"]) == (2, 2)
    iterations = proof["loops"]["iterations_started"]
    assert (proof["loops"]["started"], proof["loops"]["iterations_ended"]) == (1, iterations)
    assert iterations > 2
    assert proof["ctx"]["patches"] > 0
    assert proof["ctx"]["digest"].startswith("sha256:")
    assert (found["first"], found["last"]) == (entries[0][0], entries[-1][0])


async def test_text_of_a_proof_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert await verify.verify_one(checker_of(await everyone()), CHAIN, "table", 1) == exits.OK
    text = capsys.readouterr().out
    assert text.startswith(f"✓ {CHAIN} sim/chain completed: verified\n")
    assert "made again, each the same: router" in text
    assert "4 made, 4 consumed" in text


@pytest.mark.parametrize("name", CORRUPTED)
async def test_every_corrupted_history_is_found(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    execution_id, make, rule, says = CORRUPTED[name]
    bus = await planted({execution_id: make(history(execution_id))}, stored_values())
    code, found = await shown(bus, execution_id, capsys, None)
    assert (code, found["verdict"]) == (exits.ERROR, "violated")
    right = [each for each in found["violations"] if each["rule"] == rule and says in each["message"]]
    assert right
    assert right[0]["record"]["execution_id"] == execution_id
    _, first = await shown(bus, execution_id, capsys)
    assert first["violations"] == found["violations"][:1]


async def test_text_of_a_violation_has_rule_place_and_record(capsys: pytest.CaptureFixture[str]) -> None:
    execution_id, make, _, _ = CORRUPTED["a run ended twice"]
    bus = await planted({execution_id: make(history(execution_id))})
    assert await verify.verify_one(checker_of(bus), execution_id, "table", 1) == exits.ERROR
    text = capsys.readouterr().out
    assert text.startswith(f"✗ {execution_id} sim/chain completed: violated\n")
    assert "more (--all-violations tells them)" in text
    assert '"writer": "router"' in text


async def test_unfinished_execution_is_verified_as_far_as_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    entries = history(CHAIN)[:4]
    code, found = await shown(await planted({CHAIN: entries}), CHAIN, capsys)
    assert (code, found["verdict"], found["status"]) == (exits.OK, "unfinished", "running")
    await verify.verify_one(checker_of(await planted({CHAIN: entries})), CHAIN, "table", 1)
    assert f"is not over; verified up to sequence {entries[-1][0]}" in capsys.readouterr().out


async def test_record_that_cannot_be_read_is_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    entries: list[Any] = history(CHAIN)
    entries[2] = (entries[2][0], b"{ not json")
    code, found = await shown(await planted({CHAIN: entries}), CHAIN, capsys)
    first = found["violations"][0]
    assert (code, first["rule"], first["seq"], first["record"]) == (exits.ERROR, "record", entries[2][0], "{ not json")


async def test_record_of_a_later_version_cannot_be_verified(capsys: pytest.CaptureFixture[str]) -> None:
    entries = history(CHAIN)
    place = next(place for place, (_, record) in enumerate(entries) if place and record.writer == "router")
    entries[place] = (entries[place][0], replace(entries[place][1], v=99))
    code, found = await shown(await planted({CHAIN: entries}), CHAIN, capsys)
    assert (code, found["verdict"]) == (exits.ERROR, "unverifiable")
    assert "upgrade the reader" in found["reason"]


async def test_missing_stored_value_cannot_be_verified(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = await shown(await planted({LARGE: history(LARGE)}), LARGE, capsys)
    assert (code, found["verdict"]) == (exits.ERROR, "unverifiable")
    assert "a stored value is missing: chunk 0 of result" in found["reason"]


async def test_stored_value_that_is_another_is_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    values = dict.fromkeys(stored_values(), b'"other"')
    code, found = await shown(await planted({LARGE: history(LARGE)}, values), LARGE, capsys)
    assert (code, found["violations"][0]["rule"]) == (exits.ERROR, "value")


async def test_missing_playbook_cannot_be_verified(capsys: pytest.CaptureFixture[str]) -> None:
    bus = await planted({CHAIN: history(CHAIN)})
    bus.broker.streams["KV_noetl_playbooks"].purge(">")
    code, found = await shown(bus, CHAIN, capsys)
    assert (code, found["verdict"]) == (exits.ERROR, "unverifiable")
    assert "there is no playbook source with digest" in found["reason"]
    await verify.verify_one(checker_of(bus), CHAIN, "table", 1)
    assert "cannot be verified: its playbook cannot be had" in capsys.readouterr().out


async def test_without_its_playbook_the_rules_that_need_none_still_hold(capsys: pytest.CaptureFixture[str]) -> None:
    bus = await planted({CHAIN: CORRUPTED["a dropped record"].make(history(CHAIN))})
    bus.broker.streams["KV_noetl_playbooks"].purge(">")
    code, found = await shown(bus, CHAIN, capsys)
    assert (code, found["verdict"], found["violations"][0]["rule"]) == (exits.ERROR, "violated", "record")
    assert "was not scheduled" in found["violations"][0]["message"]
    assert "there is no playbook source with digest" in found["reason"]


async def test_unknown_execution_is_not_found() -> None:
    with pytest.raises(CliError) as error:
        await verify.verify_one(checker_of(await everyone()), "nosuch", "json", 1)
    assert error.value.code == exits.NOT_FOUND


def test_either_one_or_all() -> None:
    assert noetlctl("verify") == exits.USAGE
    assert noetlctl("verify", "x", "--all") == exits.USAGE
    assert noetlctl("verify", "x", "--since", "1h") == exits.USAGE


# -- everything ------------------------------------------------------------------------------


async def test_all_counts_and_lists_what_is_not_right(capsys: pytest.CaptureFixture[str]) -> None:
    bus = await everyone()
    name = "e100"
    wrong = [(seq + 10_000, replace(record, execution_id=name)) for seq, record in history(CHAIN)]
    del wrong[at(wrong, ev.NextSelected)]
    for seq, record in wrong:
        put(bus, seq, name, record)
    for seq, record in history(CHAIN)[:4]:
        as_of = record.as_of and record.as_of + 20_000
        put(bus, seq + 20_000, "e200", replace(record, execution_id="e200", as_of=as_of))
    assert await verify.verify_all(checker_of(bus), "json", 1) == exits.ERROR
    found = json.loads(capsys.readouterr().out)
    whole = len(good_day()[0])
    assert set(found) == {
        "executions", "verified", "unfinished", "violated", "unverifiable", "records", "events", "projection", "listed",
        "still",
    }
    counts = [found[word] for word in ("executions", "verified", "unfinished", "violated", "unverifiable")]
    assert counts == [whole + 2, whole, 1, 1, 0]
    assert [(each["execution_id"], len(each["violations"])) for each in found["listed"]] == [(name, 1)]
    assert await verify.verify_all(checker_of(bus), "table", 1) == exits.ERROR
    text = capsys.readouterr().out
    assert f"{whole + 2} executions: {whole} verified, 1 unfinished, 1 violated, 0 unverifiable" in text
    assert name in text


async def test_all_since_a_time_leaves_out_what_began_before() -> None:
    begins = sorted(datetime.fromisoformat(entries[0][1].ts) for entries in good_day()[0].values())
    for since in (begins[0], begins[len(begins) // 2], begins[-1] + timedelta(microseconds=1)):
        summary = await everything(checker_of(await everyone()), since=since)
        assert len(summary.known) == sum(begin >= since for begin in begins)


async def test_names_of_all_are_those_that_are_not_right(capsys: pytest.CaptureFixture[str]) -> None:
    bus = await planted({CHAIN: CORRUPTED["a dropped record"].make(history(CHAIN)), PARALLEL: history(PARALLEL)})
    assert await verify.verify_all(checker_of(bus), "name", 1) == exits.ERROR
    assert capsys.readouterr().out == f"{CHAIN}\n"


async def test_late_record_makes_an_execution_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was verified and let go before the record came that its router cannot have written."""
    monkeypatch.setattr(checker, "MAX_LATELY", 0)
    monkeypatch.setattr(checker, "BATCH", 1)
    bus = await everyone()
    last = history(CHAIN)[-1][1]
    late = replace(last, n=last.n + len(last.events), events=(ev.WorkflowStarted(),))
    put(bus, 30_000, CHAIN, late)
    summary = await everything(checker_of(bus))
    assert [verdict.violations[0].rule for verdict in summary.listed.values()] == ["decision"]
    assert totals(summary, None)["executions"] == len(good_day()[0])


async def test_memory_is_bounded_and_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much to hold is read by itself, and the totals are the same."""
    whole = totals(await everything(checker_of(await everyone())), None)
    monkeypatch.setattr(checker, "MAX_HELD_BYTES", 2000)
    assert totals(await everything(checker_of(await everyone())), None) == whole


async def test_empty_log_has_nothing_to_verify() -> None:
    assert totals(await everything(checker_of(await planted({}))), None)["executions"] == 0


async def test_stream_that_lost_its_end_is_an_error_and_no_endless_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "SILENCE_S", 0.05)
    bus = await everyone()
    stream = bus.broker.streams[topology.events_stream(subjects.partition_of(CHAIN, PARTITIONS))]
    stream.last += 1
    with pytest.raises(Exception, match="gives none in"):
        await everything(checker_of(bus))


def test_every_rule_is_documented_and_no_other() -> None:
    section = (ROOT / "docs/cli.md").read_text().partition("\n## verify\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE) == list(get_args(Rule))

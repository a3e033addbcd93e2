"""What makes an execution go on, in words: a command wherever there is one."""

from typing import get_args

import pytest

from services.cli.stack.remedies import WORDS, pool_message, words
from shared.answers.why.remedies import ENDS, GOES_ON, Code, Remedy, remedy, start
from shared.runtime.stores import pool_state
from shared.runtime.stores.pool_state import PoolState
from shared.runtime.stores.pools import Entry, Status

WORKER = remedy("start_worker", pool="etl")
SAID: list[tuple[Remedy, str]] = [
    (GOES_ON, "it goes on by itself"),
    (ENDS, "it ends by itself"),
    (remedy("is_taken"), "it goes on by itself: a worker with a free slot takes it"),
    (remedy("gets_place"), "it goes on by itself: the scheduler gives the place to the first in line"),
    (remedy("is_replaced", remedy("look_at_pool", pool="etl")),
     "it goes on by itself when the silent worker is replaced; noetlctl pool describe etl says why none is there; "
     "noetlctl pool logs etl"),
    (remedy("iteration_ends"),
     "it goes on when one of them ends; a larger max_in_flight needs a new execution"),
    (remedy("slot_frees", WORKER),
     "it goes on when a slot is free; start a worker: NOETL_POOL=etl python -m services.worker"),
    (remedy("others_end", remedy("scale_pool", pool="etl", workers=3)),
     "it goes on when others end; noetlctl pool scale etl 3"),
    (remedy("calls_end", WORKER, kind="python"),
     "it goes on when one of these calls ends (spec.timeout bounds them); start a worker: NOETL_POOL=etl python -m "
     "services.worker, or raise NOETL_PYTHON_PROCESSES of the workers"),
    (remedy("calls_end", remedy("start_pools"), kind="other"),
     "it goes on when one of these calls ends (spec.timeout bounds them); start the pools service: python -m "
     "services.pools, or raise the workers' settings"),
    (remedy("holder_ends"), "it goes on when one of them ends"),
    (remedy("holder_cancelled", holder="x2"), "it goes on when one of them ends (noetlctl cancel x2 would end one)"),
    (remedy("child_ends", child="c1"), "it goes on when c1 is over"),
    (remedy("child_asked", child="c1"), "it goes on when c1 is over (not followed: noetlctl why c1)"),
    (remedy("join_completes", coming="run a:1, token t2"), "it goes on when run a:1, token t2 has come or ended"),
    (start("scheduler"), "start a scheduler: python -m services.scheduler"),
    (start("router"), "start a router: python -m services.router"),
    (remedy("start_pools"), "start the pools service: python -m services.pools"),
    (WORKER, "start a worker: NOETL_POOL=etl python -m services.worker"),
    (remedy("scale_pool", pool="etl", workers=1), "noetlctl pool scale etl 1"),
    (remedy("look_at_scaler", pool="etl"),
     "kubectl describe scaledobject -l noetl.io/pool=etl says why KEDA starts none"),
    (remedy("add_pool", WORKER, pool="etl"),
     "add etl to NOETL_POOLS of the scheduler, and start a worker: NOETL_POOL=etl python -m services.worker"),
    (remedy("resume_pool", pool="etl"), "noetlctl pool resume etl"),
    (remedy("resume_consumer", pool="etl"), "nats consumer resume NOETL_COMMANDS etl"),
    (remedy("look_at_pool", pool="etl"),
     "noetlctl pool describe etl says why none is there; noetlctl pool logs etl"),
    (remedy("look_at_log", execution_id="x1", service="router"),
     "look for x1 in the router's log: execution.waits"),
    (remedy("set_clock"),
     "set that machine's clock, and keep it with chrony or systemd-timesyncd; noetlctl doctor looks at all of them"),
    (remedy("make_room"), "free space on the broker's disk, or raise its limit: noetlctl doctor says which"),
    (remedy("after_store"), "it goes on when the store accepts writes again; if not, ask again then"),
    (remedy("execute", path="a/b"), "noetlctl execute a/b"),
    (remedy("execute_otherwise", path="a/b"), "noetlctl execute a/b with another payload"),
    (remedy("execute_mended", path="a/b"), "when that is mended: noetlctl execute a/b"),
    (remedy("rerun_failed", execution_id="x1"), "noetlctl rerun x1 --failed"),
    (remedy("rerun_mended", execution_id="x1"), "noetlctl rerun x1 --failed --version latest"),
    (remedy("mend", remedy("execute", path="a/b"), place="step load (line 7) of the playbook"),
     "mend step load (line 7) of the playbook, noetlctl register FILE, then noetlctl execute a/b"),
    (remedy("unless_source", remedy("rerun_failed", execution_id="x1"), execution_id="x1"),
     "noetlctl rerun x1 --failed, with the same source; if that is at fault, mend it, noetlctl register FILE, then "
     "noetlctl rerun x1 --failed --version latest"),
    (remedy("list_failures", execution_id="x1", step="load"), "noetlctl logs x1 --step load lists them"),
    (remedy("renew_credential", remedy("rerun_failed", execution_id="x1"), credential="crm"),
     "noetlctl credential crm=JSON, then noetlctl rerun x1 --failed"),
    (remedy("call_ends", execution_id="x1"),
     "it goes on when the call ends, which spec.timeout of the task bounds; noetlctl cancel x1 ends it now"),
    (remedy("end_process", pid=7), "kill -9 7, and noetlctl up starts another"),
    (remedy("resume", execution_id="x1"), "noetlctl resume x1"),
    (remedy("signal", execution_id="x1", signal="go"), "noetlctl signal x1 go"),
    (remedy("signal_payload", execution_id="x1", signal="go"), "noetlctl signal x1 go --payload JSON"),
    (remedy("register", GOES_ON), "noetlctl register FILE; it goes on by itself"),
    (remedy("register_and_execute", path="a/{b}"), "noetlctl register FILE, then noetlctl execute a/{b}"),
    (remedy("register_same"), "noetlctl register FILE, with the very same source"),
    (remedy("change_rule"),
     "a refused token is gone: change what the rule reads, or the rule, and run it again"),
    (remedy("change_join", step="meet"),
     "let more arcs lead to meet, or lower its admit.join, and run it again"),
    (remedy("change_arc"),
     "that is how it is written: change what the arc reads, or the arc, and run it again"),
    (remedy("start_anew", path="a/b"),
     "noetlctl dlq list shows what was set aside; start it anew: noetlctl execute a/b"),
    (remedy("wait_for_start", service="router", path="a/b"),
     "it is tried again when the router starts, which helps after an upgrade; or cancel what waits for it and start it "
     "anew: noetlctl execute a/b"),
    (remedy("show_letter", letter=7), "noetlctl dlq show 7"),
    (remedy("pool_made", pool="gpu"),
     "it goes on by itself if NOETL_POOLS of the scheduler names gpu: it makes it again within seconds; otherwise add "
     "it there and restart the scheduler"),
    (remedy("requests_made"),
     "it goes on by itself: a router makes it again within seconds, unless all of them started after the loss; then "
     "start the stack again (noetlctl up)"),
]


@pytest.mark.parametrize(("said", "text"), SAID, ids=[each.code for each, _ in SAID])
def test_a_code_has_its_words(said: Remedy, text: str) -> None:
    assert words(said) == text


def test_every_code_has_words_and_none_is_forgotten_here() -> None:
    assert set(WORDS) == set(get_args(Code)) == {each.code for each, _ in SAID}


def test_nothing_to_do_is_nothing_to_say() -> None:
    assert words(None) == ""


def pool(state: str, message: str, entry: Entry | None) -> PoolState:
    return PoolState(
        name="etl", state=state, message=message, backend="process", desired=1, workers=(), pending=0, in_flight=0,
        oldest_s=None, paused=None, delivers=True, entry=entry, pool=None, status=Status(),
    )


@pytest.mark.parametrize(("state", "message", "documented", "text"), [
    ("unattended", pool_state.UNATTENDED, True,
     "no pools service runs, so nothing is changed (python -m services.pools)"),
    ("empty", pool_state.UNDOCUMENTED, False, "it has a consumer and no document (noetlctl pool create)"),
    ("full", "all 2 python processes of its workers are busy, and runs wait", True,
     "all 2 python processes of its workers are busy, and runs wait: `noetlctl pool workers` has the calls"),
    ("full", "all are busy", False, "all are busy: `noetlctl pool workers` has the calls"),
    ("failing", "w1 ended with 1", True, "w1 ended with 1"),
    ("ready", "", True, ""),
])
def test_what_helps_a_pool_follows_from_its_state(state: str, message: str, documented: bool, text: str) -> None:
    entry = Entry("", 1, "ada", 0.0) if documented else None
    assert pool_message(pool(state, message, entry)) == text

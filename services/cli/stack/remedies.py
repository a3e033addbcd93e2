"""The words for what makes an execution continue, and for what helps a pool: a command wherever there is one."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shared.answers.why.remedies import Code, Remedy
    from shared.runtime.stores.pool_state import PoolState

# `also` is what the remedy says of what helps besides.
WORDS: Final[dict["Code", str]] = {
    "goes_on": "it goes on by itself",
    "ends": "it ends by itself",
    "is_taken": "it goes on by itself: a worker with a free slot takes it",
    "gets_place": "it goes on by itself: the scheduler gives the place to the first in line",
    "is_replaced": "it goes on by itself when the silent worker is replaced; {also}",
    "iteration_ends": "it goes on when one of them ends; a larger max_in_flight needs a new execution",
    "slot_frees": "it goes on when a slot is free; {also}",
    "others_end": "it goes on when others end; {also}",
    "calls_end": "it goes on when one of these calls ends (spec.timeout bounds them); {also}, or raise {setting}",
    "call_ends": "it goes on when the call ends, which spec.timeout of the task bounds; noetlctl cancel {execution_id} "
                 "ends it now",
    "holder_ends": "it goes on when one of them ends",
    "holder_cancelled": "it goes on when one of them ends (noetlctl cancel {holder} would end one)",
    "child_ends": "it goes on when {child} is over",
    "child_asked": "it goes on when {child} is over (not followed: noetlctl why {child})",
    "join_completes": "it goes on when {coming} has come or ended",
    "start_service": "start a {service}: python -m services.{service}",
    "start_pools": "start the pools service: python -m services.pools",
    "start_worker": "start a worker: NOETL_POOL={pool} python -m services.worker",
    "look_at_scaler": "kubectl describe scaledobject -l noetl.io/pool={pool} says why KEDA starts none",
    "scale_pool": "noetlctl pool scale {pool} {workers}",
    "add_pool": "add {pool} to NOETL_POOLS of the scheduler, and {also}",
    "pool_made": "it goes on by itself if NOETL_POOLS of the scheduler names {pool}: it makes it again within seconds; "
                 "otherwise add it there and restart the scheduler",
    "requests_made": "it goes on by itself: a router makes it again within seconds, unless all of them started after "
                     "the loss; then start the stack again (noetlctl up)",
    "resume_pool": "noetlctl pool resume {pool}",
    "resume_consumer": "nats consumer resume NOETL_COMMANDS {pool}",
    "end_process": "kill -9 {pid}, and noetlctl up starts another",
    "look_at_pool": "noetlctl pool describe {pool} says why none is there; noetlctl pool logs {pool}",
    "look_at_log": "look for {execution_id} in the {service}'s log: execution.waits",
    "set_clock": "set that machine's clock, and keep it with chrony or systemd-timesyncd; noetlctl doctor looks at all "
                 "of them",
    "make_room": "free space on the broker's disk, or raise its limit: noetlctl doctor says which",
    "after_store": "it goes on when the store accepts writes again; if not, ask again then",
    "execute": "noetlctl execute {path}",
    "execute_otherwise": "noetlctl execute {path} with another payload",
    "execute_mended": "when that is mended: noetlctl execute {path}",
    "renew_credential": "noetlctl credential {credential}=JSON, then {also}",
    "rerun_failed": "noetlctl rerun {execution_id} --failed",
    "rerun_mended": "noetlctl rerun {execution_id} --failed --version latest",
    "mend": "mend {place}, noetlctl register FILE, then {also}",
    "unless_source": "{also}, with the same source; if that is at fault, mend it, noetlctl register FILE, then "
                     "noetlctl rerun {execution_id} --failed --version latest",
    "resume": "noetlctl resume {execution_id}",
    "signal": "noetlctl signal {execution_id} {signal}",
    "signal_payload": "noetlctl signal {execution_id} {signal} --payload JSON",
    "register": "noetlctl register FILE; {also}",
    "register_and_execute": "noetlctl register FILE, then noetlctl execute {path}",
    "register_same": "noetlctl register FILE, with the very same source",
    "change_rule": "a refused token is gone: change what the rule reads, or the rule, and run it again",
    "change_join": "let more arcs lead to {step}, or lower its admit.join, and run it again",
    "change_arc": "that is how it is written: change what the arc reads, or the arc, and run it again",
    "list_failures": "noetlctl logs {execution_id} --step {step} lists them",
    "start_anew": "noetlctl dlq list shows what was set aside; start it anew: noetlctl execute {path}",
    "wait_for_start": "it is tried again when the {service} starts, which helps after an upgrade; or cancel what waits "
                      "for it and start it anew: noetlctl execute {path}",
    "show_letter": "noetlctl dlq show {letter}",
}
SETTINGS = {"python": "NOETL_PYTHON_PROCESSES of the workers"}  # how many calls of a kind a worker makes at a time
# What a pool's state means for whoever looks at it, after what it says itself.
HINTS = {"unattended": " (python -m services.pools)", "full": ": `noetlctl pool workers` has the calls"}
UNDOCUMENTED = " (noetlctl pool create)"


def words(remedy: "Remedy | None") -> str:
    """Empty: nothing is to be done."""
    if remedy is None:
        return ""
    setting = SETTINGS.get(remedy.values.get("kind", ""), "the workers' settings")
    return WORDS[remedy.code].format(also=words(remedy.also), setting=setting, **remedy.values)


def pool_message(state: "PoolState") -> str:
    """What a pool says of itself, and what helps."""
    return state.message + HINTS.get(state.state, UNDOCUMENTED if state.entry is None else "")

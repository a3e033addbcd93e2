"""What makes an execution continue, as a code with its subject. Which command that is, a shell says: the words are
in one table of the command line, `services/cli/stack/remedies.py`."""

from typing import Any, Literal

from msgspec import Struct

Code = Literal[
    # By itself
    "goes_on", "ends", "is_taken", "gets_place", "is_replaced", "iteration_ends", "slot_frees", "others_end",
    "calls_end", "call_ends", "holder_ends", "holder_cancelled", "child_ends", "child_asked", "join_completes",
    # Services and workers
    "start_service", "start_pools", "start_worker", "scale_pool", "add_pool", "pool_made", "resume_pool",
    "resume_consumer", "requests_made", "end_process",
    "look_at_pool", "look_at_scaler", "look_at_log", "set_clock", "make_room", "after_store",
    # The execution
    "execute", "execute_otherwise", "execute_mended", "rerun_failed", "rerun_mended", "mend", "unless_source",
    "renew_credential",
    "resume", "signal", "signal_payload", "register", "register_and_execute", "register_same", "change_rule",
    "change_join", "change_arc", "list_failures",
    # What a shell finds beside the log
    "start_anew", "wait_for_start", "show_letter",
]


class Remedy(Struct, frozen=True, omit_defaults=True):
    """`also` is what helps besides."""

    code: Code
    values: dict[str, Any] = {}
    also: "Remedy | None" = None


def remedy(code: Code, also: Remedy | None = None, **values: Any) -> Remedy:
    return Remedy(code, values, also)


GOES_ON = remedy("goes_on")
ENDS = remedy("ends")


def start(service: str) -> Remedy:
    return remedy("start_service", service=service)

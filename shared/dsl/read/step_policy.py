"""Policies of the outer scopes (V10 §5.1, §5.2): the executor's defaults, a step's admission,
lifecycle and failure mode."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from shared.dsl.model.plan import MAX_LEASES, AdmitRule, Compensate, Limit, Notify, Tolerance
from shared.dsl.read import limits, rejected_keys
from shared.dsl.read.joins_and_compensation import read_compensate, read_join
from shared.dsl.read.notify import read_notify
from shared.dsl.read.pool_names import NAME_FIX, is_pool_name, name_fix
from shared.dsl.read.reader import Reader, short
from shared.dsl.read.shapes import rules
from shared.dsl.read.spec_layers import read_knobs
from shared.dsl.read.template_fields import read_condition
from shared.dsl.source.nodes import Path
from shared.events.bounds import POOL

DEFAULT_POOL = "default"
DEFAULT_MAX_PAYLOAD = 131072
MAX_TOLERATED = 1_000_000
MOST_LEASES = 100
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,4})?)\s*%\Z")


class Defaults(Struct, frozen=True):
    """What the executor sets for every step."""

    pool: str = DEFAULT_POOL
    knobs: Mapping[str, Any] = {}
    timeout_s: float | None = None
    step_timeout_s: float | None = None
    max_payload_bytes: int = DEFAULT_MAX_PAYLOAD
    entry_step: str = ""
    limit: Limit | None = None
    priority: int | None = None
    notify: Notify | None = None


class StepPolicy(Struct, frozen=True, kw_only=True):
    admit: tuple[AdmitRule, ...] = ()
    timeout_s: float | None = None
    deadline_s: float | None = None
    max_leases: int = MAX_LEASES
    failure: str = "fail_fast"
    max_payload_bytes: int | None = None
    tolerate: Tolerance = Tolerance()
    join: Any = "all"
    compensate: Compensate | None = None
    limit: Limit | None = None


def read_executor(reader: Reader, root: Mapping[str, Any], knobs: Iterable[str], playbook: str) -> Defaults:
    """`playbook` is its path: the key of a limit that names none."""
    executor = reader.section(root, "executor", (), ("kind", "spec"), rejected_keys.EXECUTOR)
    kinds = ("distributed", "local")
    if "kind" in executor and reader.choice(executor["kind"], ("executor", "kind"), kinds) == "local":
        reader.key(("executor", "kind"), "DSL903", "kind: local changes nothing: where a step runs, its pool says",
                   "write spec: {pool: …}, and for a loop on one worker loop: {spec: {policy: {exec: local}}}",
                   warning=True)
    at: Path = ("executor", "spec")
    spec = reader.section(executor, "spec", ("executor",), ("pool", "policy", "entry_step", *knobs),
                          rejected_keys.EXECUTOR_SPEC)
    policy_at = (*at, "policy")
    keys = ("defaults", "results", "limits", "priority", "notify")
    policy = reader.section(spec, "policy", at, keys, {**rejected_keys.STEP_POLICY, **rejected_keys.EXECUTOR_POLICY})
    limits_at = (*policy_at, "limits")
    limited = reader.section(policy, "limits", policy_at, limits.KEYS)
    _results(reader, policy, policy_at)
    execution_s, step_s = _timeouts(reader, policy, policy_at)
    return Defaults(
        pool=read_pool(reader, spec["pool"], (*at, "pool")) if "pool" in spec else DEFAULT_POOL,
        knobs=read_knobs(reader, spec, at, knobs),
        timeout_s=execution_s, step_timeout_s=step_s,
        max_payload_bytes=limits.read_payload_limit(reader, limited, limits_at) or DEFAULT_MAX_PAYLOAD,
        entry_step=reader.text(spec["entry_step"], (*at, "entry_step"), "write entry_step: <step>")
        if "entry_step" in spec else "",
        limit=limits.read_limit(reader, limited, limits_at, playbook),
        priority=limits.read_priority(reader, policy, policy_at),
        notify=read_notify(reader, policy, policy_at),
    )


def _timeouts(reader: Reader, policy: Mapping[str, Any], path: Path) -> tuple[float | None, float | None]:
    defaults = reader.section(policy, "defaults", path, ("timeouts",), rejected_keys.DEFAULTS)
    tasks = rejected_keys.moved("timeout", "timeout: {connect: …, read: …} in executor.spec")
    timeouts = reader.section(defaults, "timeouts", (*path, "defaults"), ("execution_s", "step_s"),
                              dict.fromkeys(("timeout", "connect", "read", "total"), tasks))
    at = (*path, "defaults", "timeouts")
    found = [reader.seconds(timeouts[key], (*at, key)) if key in timeouts else None
             for key in ("execution_s", "step_s")]
    return found[0], found[1]


def _results(reader: Reader, policy: Mapping[str, Any], path: Path) -> None:
    results = reader.section(policy, "results", path, ("reference_first",))
    at = (*path, "results", "reference_first")
    if "reference_first" in results and not reader.boolean(results["reference_first"], at):
        reader.key(at, "DSL903", "results over max_payload_bytes are kept by reference all the same",
                   "set limits.max_payload_bytes instead", warning=True)


def read_pool(reader: Reader, value: Any, path: Path) -> str:
    if isinstance(value, str) and POOL.fullmatch(value):
        if not is_pool_name(value):
            reader.value(path, "DSL205", f"no new pool can be called {short(value)}", name_fix(value), warning=True)
        return value
    reader.value(path, "DSL205", f"a pool cannot be called {short(value)}",
                 name_fix(value) if isinstance(value, str) else NAME_FIX)
    return DEFAULT_POOL


def read_step_policy(reader: Reader, spec: Mapping[str, Any], path: Path, steps: Mapping[str, Any], own_key: str, *,
                     looped: bool) -> StepPolicy:
    """`steps` are the names of all steps, `own_key` that of a limit which names none."""
    at = (*path, "policy")
    keys = ("admit", "lifecycle", "failure", "limits", "compensate")
    policy = reader.section(spec, "policy", path, keys, rejected_keys.STEP_POLICY)
    lifecycle = reader.section(policy, "lifecycle", at, ("timeout_s", "deadline_s", "max_leases"))
    timeout_s, deadline_s = (
        reader.seconds(lifecycle[key], (*at, "lifecycle", key)) if key in lifecycle else None
        for key in ("timeout_s", "deadline_s"))
    limits_at = (*at, "limits")
    limited = reader.section(policy, "limits", at, limits.KEYS)
    return StepPolicy(
        admit=_admit(reader, policy, at), timeout_s=timeout_s, deadline_s=deadline_s,
        max_leases=_max_leases(reader, lifecycle, at), failure=_failure(reader, policy, at, looped=looped),
        max_payload_bytes=limits.read_payload_limit(reader, limited, limits_at),
        tolerate=_tolerance(reader, policy, at, looped=looped), join=read_join(reader, policy, at),
        compensate=read_compensate(reader, policy, at, steps),
        limit=limits.read_limit(reader, limited, limits_at, own_key),
    )


def _failure(reader: Reader, policy: Mapping[str, Any], path: Path, *, looped: bool) -> str:
    failure = reader.section(policy, "failure", path, ("mode", "tolerate"), rejected_keys.CONTROL)
    at = (*path, "failure", "mode")
    if "mode" not in failure:
        return "fail_fast"
    mode = reader.choice(failure["mode"], at, ("fail_fast", "best_effort"))
    if mode == "best_effort" and not looped:
        reader.key(at, "DSL903", "failure.mode is about the iterations of a loop", "remove it", warning=True)
    return mode


def _tolerance(reader: Reader, policy: Mapping[str, Any], path: Path, *, looped: bool) -> Tolerance:
    """`tolerate: 5`, or `5%` of the loop's elements."""
    failure = policy.get("failure")
    if not isinstance(failure, dict) or "tolerate" not in failure:
        return Tolerance()
    value, at = failure["tolerate"], (*path, "failure", "tolerate")
    if not looped or failure.get("mode") == "best_effort":
        what = "best_effort tolerates every failure" if looped else "failure.tolerate is about the iterations of a loop"
        reader.key(at, "DSL903", what, "remove it", warning=True)
    if isinstance(value, str) and (percent := _PERCENT.match(value)) and float(percent[1]) <= 100:
        return Tolerance(float(percent[1]), True)
    if type(value) is int and 0 <= value <= MAX_TOLERATED:
        return Tolerance(value)
    reader.value(at, "DSL203", f"failure.tolerate cannot be {short(value)}",
                 f"a whole number from 0 to {MAX_TOLERATED:,}, or a share of the elements, such as \"5%\"")
    return Tolerance()


def _max_leases(reader: Reader, lifecycle: Mapping[str, Any], path: Path) -> int:
    if "max_leases" not in lifecycle:
        return MAX_LEASES
    return reader.whole(lifecycle["max_leases"], (*path, "lifecycle", "max_leases"), 1, MOST_LEASES)


def _admit(reader: Reader, policy: Mapping[str, Any], path: Path) -> tuple[AdmitRule, ...]:
    if "admit" not in policy:
        return ()
    admit = reader.section(policy, "admit", path, ("rules", "mode", "join"), rejected_keys.ADMIT)
    at = (*path, "admit")
    if not isinstance(policy["admit"], dict):
        return ()
    modes = ("exclusive", "inclusive")
    if "mode" in admit and reader.choice(admit["mode"], (*at, "mode"), modes) == "inclusive":
        reader.value((*at, "mode"), "DSL903", "inclusive admission is a gate too: the first rule that matches decides",
                     "write mode: exclusive, or leave it out", warning=True)  # V10 §5.2.1: reserved
    if "rules" not in admit and "join" in admit:
        return ()
    return tuple(
        AdmitRule(_allow(reader, rule.then, rule.then_path),
                  None if rule.fallback else read_condition(reader, rule.when, (*rule.path, "when")),
                  reader.document.node(rule.path).position.line)
        for rule in rules(reader, admit, at))


def _allow(reader: Reader, then: Mapping[str, Any], path: Path) -> bool:
    reader.keys(then, path, ("allow",), rejected_keys.CONTROL, "then of an admission rule")
    if set(then) & set(rejected_keys.CONTROL):
        return False
    return (reader.required(then, "allow", path, "then of an admission rule", "write then: {allow: true}")
            and reader.boolean(then["allow"], (*path, "allow")))

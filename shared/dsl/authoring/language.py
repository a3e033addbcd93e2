"""The keys of a playbook, each with its type and one line of documentation: what `noetlctl explain`
prints and `noetlctl schema` turns into JSON Schema. Tests compare it with what the compiler accepts."""

from typing import Any

from msgspec import Struct

from shared.dsl.lower.root import RUNTIME
from shared.dsl.model.plan import MAX_LEASES
from shared.dsl.read import cursors, limits, loops, root, step_policy, task_policy
from shared.dsl.read.arcs import MODES
from shared.events.fields import MAX_PRIORITY, PRIORITY


class Key(Struct, frozen=True):
    """`type` is a word of `schema.TYPES`, or a shape: `@step`; `[@step]` is a list of it. `formal`: taken
    from the formal dialect or today's and rewritten by the compiler; `--strict` refuses it, as it does the
    choices in `also`. `instead`: the required key that it stands for."""

    type: str
    doc: str
    required: bool = False
    choices: tuple[Any, ...] = ()
    least: int | None = None
    most: int | None = None
    default: Any = None
    formal: bool = False
    also: tuple[str, ...] = ()
    instead: str = ""


Shape = dict[str, Key]


def _formal(doc: str, instead: str = "") -> Key:
    return Key("any", doc, formal=True, instead=instead)


_AN_HOUR = "3600 where neither the task nor its step nor its execution has a timeout."
_TIMEOUT = Key(
    "@timeout", f"Seconds for one call, or {{connect, read, total}}; {_AN_HOUR} Flows inwards to every task."
)
_RULES = "Rules from top to bottom; the first that matches decides."
_DESC = Key("text", "What it is for; shown to people.")
_SET = _formal("Keys `ctx.name` and `iter.name` with values, written on success. Write set_ctx and set_iter in a rule.")
_INPUT = _formal("The same as args.")

SHAPES: dict[str, Shape] = {
    "playbook": {
        "apiVersion": Key("text", "The version of the language.", True, (root.API_VERSION,)),
        "kind": Key("text", "What the document is.", True, ("Playbook",)),
        "metadata": Key("@metadata", "What the playbook is called and where it is kept.", True),
        "keychain": Key("[@credential]", "Credentials the tasks may read as {{ keychain.name.field }}."),
        "executor": Key("@executor", "Where it runs, and defaults for every step."),
        "workload": Key("mapping", "The inputs and their defaults; a request's payload is merged over them."),
        "workflow": Key("[@step]", "The steps; one of them is named start.", True),
        "workbook": Key("any", "Named tasks that steps use by `kind: workbook`."),
        "name": _formal("The same as metadata.name.", instead="metadata"),
        "path": _formal("The same as metadata.path."),
        "spec": _formal("Inputs, which templates read as spec.name. Write workload: {spec: …}."),
        "tracing": _formal("Changes nothing."),
    },
    "metadata": {
        "name": Key("text", "1 to 128 characters.", True),
        "path": Key("text", "Where the catalogue keeps it; the name unless given."),
        "version": Key("version", "1 to 64 characters.", default="1"),
        "description": Key("text", "What the playbook is for."),
        "labels": Key("mapping", "What executions are selected by: -l key=value. Every execution of it has them."),
        "tags": Key("list", "For people."),
    },
    "credential": {
        "name": Key("name", "What `auth` and `keychain.<name>` call it.", True),
        "kind": Key("text", "The kind of credential.", True),
        "type": _formal("The same as kind.", instead="kind"),
        "credential": Key("text", "The stored credential it stands for; the one of the same name unless given."),
        "description": Key("text", "What it is for."),
        "*": Key("any", "Taken, and told that it changes nothing: the keychain alone is asked."),
    },
    "executor": {
        "kind": Key("text", "Where it runs.", choices=("distributed", "local")),
        "spec": Key("@executor_spec", "Settings for the whole execution."),
        "profile": _formal("The same as kind; auto is neither."),
        "version": _formal(f"The runtime it is written for: {RUNTIME}."),
        "requires": _formal("Lists of tools and features it needs, checked by the compiler."),
    },
    "executor_spec": {
        "pool": Key("text", "Worker pool of every step.", default=step_policy.DEFAULT_POOL),
        "timeout": _TIMEOUT,
        "entry_step": Key("text", "The step to begin with.", default=root.START),
        "no_next_is_error": _formal("A step whose arcs all fail to match fails the execution."),
        "policy": Key("@executor_policy", "Defaults, results and limits."),
        "knobs": Key("knobs", "What any tool takes under spec."),
    },
    "executor_policy": {
        "defaults": Key("@defaults", "Defaults for every step."),
        "results": Key("@results", "How results are kept."),
        "limits": Key("@limits", "Limits of the execution: how many of them run, and how large results may be."),
        "priority": Key("whole", "Who goes first where executions wait for places or workers: 9 before 0.", least=0,
                        most=MAX_PRIORITY, default=PRIORITY),
        "notify": Key("@notify", "The playbook that is started when an execution of this one has failed."),
    },
    "notify": {
        "playbook": Key("@notified", "What is started.", True),
        "ends": Key("list", "After which ends: failed, cancelled, completed.", default="[failed]"),
    },
    "notified": {
        "path": Key("text", "Its registered path.", True),
        "version": Key("version", "The newest unless given."),
        "payload": Key("mapping", "Its inputs; templates see end: {execution_id, path, status, error, result, …}."),
    },
    "defaults": {
        "timeouts": Key("@timeouts", "Seconds an execution and a step may take."),
        "timeout_s": _formal("The same as timeouts.step_s."),
    },
    "timeouts": {
        "execution_s": Key("seconds", "Seconds for the whole execution."),
        "step_s": Key("seconds", "Seconds for one run of a step without its own timeout_s."),
    },
    "results": {"reference_first": Key("bool", "Large results are kept by reference; false changes nothing.")},
    "limits": {
        "max_payload_bytes": Key("whole", "Larger results are kept by reference.", least=1,
                                 most=limits.MAX_PAYLOAD, default=step_policy.DEFAULT_MAX_PAYLOAD),
        "key": Key("text", "Whoever names the same key shares its places; it may hold templates. The playbook, or the "
                   "step in it, unless given."),
        "max": Key("whole", "How many hold a place of the key at the same time.", least=1, most=limits.MAX_PLACES),
        "rate": Key("text", "How many get one within a time, such as 10/s, 100/m or 5/30s."),
    },
    "step": {
        "step": Key("step_name", "Its name, unique in the workflow. A path such as a/b gets a plain one.", True),
        "desc": _DESC,
        "spec": Key("@step_spec", "Settings of the step, and defaults for its tasks."),
        "loop": Key("@loop", "Runs the tasks once per element."),
        "tool": Key("@tool", "Its tasks, in order."),
        "next": Key("@next", "Where its token goes when it ends."),
        "args": _formal("Values the tasks see by name. Write args on the arc that leads here."),
        "input": _INPUT,
        "case": _formal("Rules on events. Write arcs for routing and task rules for outcomes."),
        "sink": _formal("Stores the result. Write a task that stores."),
        "retry": _formal("Repeats the call. Write a rule with do: retry."),
        "vars": _formal("Keeps parts of the result. Write set_ctx in a rule."),
        "set": _SET,
        "set_ctx": _formal("Written to ctx when the step succeeded. Write it in a rule of the task."),
        "set_iter": _formal("Written to iter when the step succeeded. Write it in a rule of the task."),
        "result": _formal("{output_select, inline_max_bytes, store}. Write output_select on the task."),
        "output": _formal("The same as result."),
    },
    "step_spec": {
        "pool": Key("text", "Worker pool of this step."),
        "requires": Key("list", "Capabilities; a pool that provides all of them is chosen when an execution starts."),
        "timeout": _TIMEOUT,
        "policy": Key("@step_policy", "Admission, lifecycle and failure of the step."),
        "knobs": Key("knobs", "What any tool takes under spec; flows inwards to the tasks."),
    },
    "step_policy": {
        "admit": Key("@admit", "Whether a token that comes here is let in."),
        "lifecycle": Key("@lifecycle", "How long a run may take."),
        "failure": Key("@failure", "What a failed iteration of the loop means."),
        "limits": Key("@limits", "Limits of this step, over those of the execution."),
        "compensate": Key("@compensate", "The step that undoes this one when the execution fails or is cancelled."),
    },
    "compensate": {
        "step": Key("text", "A step that no arc leads to; it reads the result of what it undoes as compensates.", True),
        "args": Key("mapping", "Handed to that step as args; those of the undone run unless given."),
    },
    "admit": {
        "rules": Key("[@admit_rule]", _RULES + " Without a match the token is refused. May be left out beside join."),
        "mode": Key("text", "How rules are chosen.", choices=("exclusive",)),
        "join": Key("join", "How tokens that meet here enter: all as one, each for itself, any (the first of a wave; "
                    "the rest are absorbed), or so many as one.", default="all"),
    },
    "admit_rule": {
        "when": Key("condition", "The condition; without it the rule is else."),
        "then": Key("@allow", "The decision."),
        "else": Key("any", "The fallback, last: {then: {allow: …}}."),
    },
    "allow": {"allow": Key("bool", "Whether the token is let in; a refused token ends.", True)},
    "lifecycle": {
        "timeout_s": Key("seconds", "Seconds for one run of the step."),
        "deadline_s": Key("seconds", "Seconds from its scheduling."),
        "max_leases": Key("whole", "Leases of a run that may be lost in a row, with no task finished in between; it "
                          "then fails with worker_lost.", least=1, most=step_policy.MOST_LEASES, default=MAX_LEASES),
    },
    "failure": {
        "mode": Key("text", "fail_fast: the first failed iteration fails the step. best_effort: all run.",
                    choices=("fail_fast", "best_effort"), default="fail_fast"),
        "tolerate": Key("any", "With fail_fast: how many iterations may fail, or a share of them, such as 5%."),
    },
    "loop": {
        "in": Key("items", "A list, or one {{ expression }}.", True),
        "cursor": Key("@cursor", "Instead of in: rows that a query claims while the loop runs.", instead="in"),
        "iterator": Key("name", "Name of the element in an iteration.", True),
        "spec": Key("@loop_spec", "How the iterations run."),
        "loop": Key("@loop", "A loop within it: its in reads the element around it. All levels are one run."),
        "set_ctx": Key("mapping", "Written to ctx once, when the loop is done; it reads event.result."),
        "mode": _formal("Write it under spec."),
        "max_in_flight": _formal("Write it under spec."),
    },
    "cursor": {
        "kind": Key("text", "The kind of tool that claims.", True, ("postgres",)),
        "auth": Key("any", "Name of a credential, or a template that gives it."),
        "connection": Key("text", "Connection string, instead of auth."),
        "claim": Key("text", "SQL that claims rows and returns them, at most {{ claim.size }} of them; {{ claim.id }} "
                     "names the claim.", True),
        "frame": Key("whole", "Rows of one claim.", least=1, most=cursors.MAX_FRAME, default=cursors.DEFAULT_FRAME),
    },
    "loop_spec": {
        "mode": Key("text", "One after the other, or several at a time.", choices=("sequential", "parallel"),
                    default="sequential", also=("async", "cursor")),
        "max_in_flight": Key("count", "Iterations at a time of a parallel loop, or one {{ expression }}.", least=1,
                             most=loops.MAX_IN_FLIGHT, default=loops.DEFAULT_IN_FLIGHT),
        "frame": _formal("With mode: cursor. Write it in loop.cursor."),
        "cursor": _formal("With mode: cursor. Write loop.cursor."),
        "stop_when": Key("condition", "Asked after every iteration; when it holds no further one starts."),
        "timeout": _TIMEOUT,
        "policy": Key("@loop_policy", "mode and max_in_flight may also stand here."),
        "knobs": Key("knobs", "What any tool takes under spec; flows inwards to the tasks."),
    },
    "loop_policy": {
        "exec": Key("text", "Where iterations run: on any worker of the pool, or all on one.",
                    choices=("distributed", "local"), default="distributed"),
        "mode": Key("text", "As in loop.spec.", choices=("sequential", "parallel")),
        "max_in_flight": Key("count", "As in loop.spec.", least=1, most=loops.MAX_IN_FLIGHT),
    },
    "task": {
        "name": Key("name", "Unique in the step; task_0, task_1 … unless given."),
        "kind": Key("kind", "An installed tool kind.", True),
        "desc": _DESC,
        "spec": Key("@task_spec", "Knobs of the call, and its policy."),
        "args": Key("any", "Values handed to the tool."),
        "auth": Key("any", "Name of a credential, or a template that gives it; for kinds that take several, "
                    "alias: {credential, type, scope}."),
        "assert": Key("@assert", "What must hold of its args and its result, else it is an error of kind assert."),
        "output_select": Key("paths", "Paths into the result that stay at hand when it is kept by reference."),
        "loop": Key("@task_loop", "Calls the tool once per element, in order; its result is the list of theirs."),
        "input": _INPUT,
        "set": _SET,
        "set_ctx": _formal("Written to ctx when the task succeeded. Write it in a rule."),
        "set_iter": _formal("Written to iter when the task succeeded. Write it in a rule."),
        "retry": _formal("Repeats the call. Write a rule with do: retry."),
        "sink": _formal("Stores the result. Write a task that stores."),
        "timeout": _formal("Write it under spec."),
        "timeout_s": _formal("Write spec: {timeout: …}."),
        "timeout_seconds": _formal("Write spec: {timeout: …}."),
    },
    "task_loop": {
        "in": Key("items", "A list, or one {{ expression }}.", True),
        "iterator": Key("name", "Name of the element; iter.parent is what iter is around the task.", True),
    },
    "assert": {
        "expects": Key("list", "Names of args that must be there before the call."),
        "returns": Key("list", "Keys that the result must have."),
    },
    "task_spec": {
        "timeout": Key("@timeout", f"Seconds for one call, or {{connect, read, total}}; {_AN_HOUR}"),
        "policy": Key("@task_policy", "What an outcome means. Without it, ok continues and an error fails."),
        "knobs": Key("knobs", "What this tool takes under spec."),
    },
    "timeout": {
        "connect": Key("delay", "Seconds to connect."),
        "read": Key("delay", "Seconds to wait for data."),
        "total": Key("delay", "Seconds for the whole call."),
    },
    "task_policy": {
        "rules": Key("[@rule]", _RULES + " None: the pipeline continues.", True),
        "mode": Key("text", "How rules are chosen.", choices=("exclusive",)),
        "on_unmatched": Key("text", "What an outcome no rule matches means.", choices=("continue",)),
        "before": Key("list", "Empty."),
        "after": Key("list", "Empty."),
        "finally": Key("list", "Empty."),
    },
    "rule": {
        "when": Key("condition", "The condition on `outcome`; without it the rule is else."),
        "then": Key("@then", "What is done."),
        "else": Key("any", "The fallback, last: {then: {do: …}}."),
    },
    "then": {
        "do": Key("text", "continue, retry the task, jump to another, break out of the pipeline, or fail.",
                  True, task_policy.ACTIONS),
        "attempts": Key("whole", "For retry: all tries, the first included.", least=1, most=task_policy.MAX_ATTEMPTS),
        "backoff": Key("text", "For retry: how the delay grows.", choices=task_policy.BACKOFFS, default="none",
                       also=("fixed",)),
        "delay": Key("delay", "For retry: seconds before the next try, or one {{ expression }}.", default=0),
        "multiplier": Key("seconds", "For retry with exponential backoff: what the delay is multiplied with.",
                          default=2.0),
        "max_delay": Key("seconds", "For retry: the longest delay in seconds.", default=300.0),
        "to": Key("text", "For jump: a task of the same step."),
        "error": Key("text", "For fail: an {{ expression }} that gives the error to report."),
        "set_iter": Key("mapping", "Written to iter; a value may be a reducer, as in set_ctx."),
        "set_ctx": Key("mapping", "Written to ctx; a value may be a reducer: " + ", ".join(task_policy.REDUCERS) + "."),
        "result": Key("text", "What the task answers with: a task's name, _prev, or one {{ expression }}."),
        "set": _SET,
    },
    "next": {
        "spec": Key("@next_spec", "How arcs are chosen."),
        "arcs": Key("[@arc]", "The arcs, in order.", True),
    },
    "next_spec": {
        "mode": Key("text", "exclusive: the first arc that matches. inclusive: all that match.", choices=MODES,
                    default="exclusive"),
        "policy": Key("mapping", "Empty."),
        "on_no_match": _formal("quiet or complete: the token ends, as it does anyway. fail: the execution fails."),
    },
    "arc": {
        "step": Key("text", "The step to go to.", True),
        "when": Key("condition", "Without it the arc fires when the step succeeded. A failure takes the arc only if its"
                    " `when` reads `event`."),
        "args": Key("mapping", "Handed to that step as args."),
        "cond": _formal("An expression without braces. Write when."),
        "set": _SET,
        "input": _INPUT,
    },
}

"""The keys of a test (`kind: Test`), each with its type and one line of documentation, for `noetlctl explain` and
the JSON Schema. Tests hold it against what is read."""

from shared.dsl.authoring.language import Key, Shape
from shared.dsl.playtests import model as playtest
from shared.dsl.read import root

_NAMES = "Names the calls it answers"
_COUNT = playtest.MAX_COUNT
_MOCKS = "How tasks answer; of those that fit a call the first one does."
_RUN = "Kinds whose tasks are run for real where no mock fits: python, duckdb, shell."

TEST_SHAPES: dict[str, Shape] = {
    "test": {
        "apiVersion": Key("text", "The version of the language.", True, (root.API_VERSION,)),
        "kind": Key("text", "What the document is.", True, ("Test",)),
        "desc": Key("text", "What is tested; shown to people."),
        "playbook": Key("text", "The file of the playbook, from the folder of the test.", True),
        "with": Key("texts", "Files of playbooks that it calls; they run on mocks of their own."),
        "run": Key("texts", _RUN),
        "mocks": Key("[@mock]", _MOCKS + " Asked after those of the case."),
        "cases": Key("[@test_case]", "The cases, each an execution of its own.", True),
    },
    "test_case": {
        "name": Key("text", "What it shows; unique in the file.", True),
        "desc": Key("text", "More about it; shown to people."),
        "payload": Key("mapping", "The request's payload, merged over the workload."),
        "now": Key("text", "When it begins on the virtual clock: a time with its zone.",
                   default="2026-01-01T00:00:00Z"),
        "run": Key("texts", _RUN),
        "mocks": Key("[@mock]", _MOCKS + " One that answers no call fails the case."),
        "signals": Key("[@test_signal]", "Signals that come from outside."),
        "cancel": Key("@test_cancel", "The execution is cancelled."),
        "order": Key("text", "any: ctx and result may depend on the order of events, which --faults then takes as it "
                     "is.", choices=playtest.ORDERS, default="same"),
        "expect": Key("@expect", "What must come of it; that it completes unless given."),
    },
    "mock": {
        "playbook": Key("text", "Path of the playbook whose task answers; the one under test unless given."),
        "step": Key("text", _NAMES + ": those of this step.", True),
        "task": Key("text", _NAMES + ": those of this task; may be left out where only one can be meant."),
        "attempt": Key("whole", _NAMES + ": those of this attempt, from 1.", least=1, most=_COUNT),
        "nth": Key("whole", _NAMES + ": the nth call of the task in its run or iteration, retries included.", least=1,
                   most=_COUNT),
        "run": Key("whole", _NAMES + ": those of this run of the step, from 1.", least=1, most=_COUNT),
        "iteration": Key("whole", _NAMES + ": those of this iteration of the step's loop, from 0.", least=0,
                         most=_COUNT),
        "when": Key("condition", _NAMES + ": those for which it holds. It sees what the task sees, and `call`, its "
                    "rendered keys."),
        "result": Key("any", "An ok outcome with this result, in the shape of the kind. Templates see what `when` "
                      "sees."),
        "error": Key("any", "An error outcome: its message, or {kind, message, retryable, status, code}."),
        "outcome": Key("@mock_outcome", "The outcome itself."),
        "after": Key("delay", "How long the call takes on the virtual clock.", default=0),
    },
    "mock_outcome": {
        "status": Key("text", "Whether the call succeeded.", True, ("ok", "error")),
        "result": Key("any", "The result."),
        "error": Key("any", "What went wrong: its message, or {kind, message, retryable}."),
        "http": Key("mapping", "Of an http call: {status, headers}."),
        "pg": Key("mapping", "Of a postgres call: {code, sqlstate}."),
        "py": Key("mapping", "Of a python call: {exception_type}."),
        "meta": Key("mapping", "What else is known of the call."),
    },
    "test_signal": {
        "name": Key("text", "The name that a task of kind signal waits for.", True),
        "payload": Key("any", "What the task answers with."),
        "at": Key("delay", "How long after the start it comes.", default=0),
    },
    "test_cancel": {
        "at": Key("delay", "How long after the start.", default=0),
        "reason": Key("text", "Why."),
    },
    "expect": {
        "status": Key("text", "How the execution ends; failed when an error is expected, else completed.",
                      choices=playtest.ENDINGS),
        "path": Key("texts", "The steps in the order they are entered."),
        "steps": Key("mapping", "Of steps by name: {runs, status, iterations, failed}."),
        "ctx": Key("mapping", "Keys of ctx at the end, and their values."),
        "result": Key("any", "The result of the execution."),
        "error": Key("mapping", "Keys of its error, and their values; text between two slashes is a regular "
                     "expression."),
        "calls": Key("mapping", "How often tasks were called: step.task, or step for all its tasks."),
        "elapsed": Key("any", "Virtual time it took: a length, or {least, most}."),
        "that": Key("texts", "Expressions that hold at the end; they see status, result, ctx, error, steps, workload, "
                    "calls and elapsed."),
    },
    "step_expect": {
        "runs": Key("whole", "How often it was entered.", least=0, most=_COUNT),
        "status": Key("text", "How its last run ended.", choices=playtest.STEP_ENDS),
        "iterations": Key("whole", "How many iterations its last loop had.", least=0, most=_COUNT),
        "failed": Key("whole", "How many of them failed.", least=0, most=_COUNT),
    },
    "elapsed": {
        "least": Key("delay", "At least so long."),
        "most": Key("delay", "At most so long."),
    },
}

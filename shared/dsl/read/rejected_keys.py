"""Keys we recognise but reject here, each with the reason and its replacement."""

from shared.dsl.read.reader import Told

_RULES = 'spec: {policy: {rules: [{when: "{{ … }}", then: {do: …}}]}} on the task'
_ARCS = 'next: {arcs: [{step: …, when: "{{ … }}"}]}'
NEXT_TEXT = Told("DSL301", "next is a router object here", "write next: {arcs: [{step: …}]}")
EVAL = Told("DSL302", "eval was replaced by task policy rules", f"write {_RULES}")
EXPR = Told("DSL303", "expr was replaced by when", "rename expr to when")
PIPE = Told("DSL305", "pipe was dropped: tool is already an ordered pipeline",
            "write tool: [{name: …, kind: …}, …]")
WHEN_STEP = Told("DSL304", "a step has no when",
                 'write spec: {policy: {admit: {rules: [{when: "{{ … }}", then: {allow: true}}, '
                 "{else: {then: {allow: false}}}]}}}")
CASE = Told("DSL301", "case belongs to the formal dialect",
            f"route with {_ARCS}, handle outcomes with {_RULES}")
SINK = Told("DSL301", "sink belongs to the formal dialect",
            "add a task that stores: tool: [{…}, {name: store, kind: postgres, …}]")
RETRY = Told("DSL301", "retry belongs to the formal dialect",
             'write spec: {policy: {rules: [{when: "{{ … }}", then: {do: retry, attempts: 5}}]}} on the task')
VARS = Told("DSL301", "vars belongs to the formal dialect",
            'write set_ctx: {name: "{{ outcome.result… }}"} in a rule of the task')
ARGS = Told("DSL301", "args on a step belongs to the formal dialect",
            "write next: {arcs: [{step: …, args: {…}}]} on the step before")
_SUGAR = Told("DSL701", "authoring sugar stands in a tool list, not on a step",
              "write tool: [{choose: …}], or write it as tasks with jump and break (V10 §11)")


def unsupported(what: str, fix: str) -> Told:
    return Told("DSL701", f"{what} is not supported", fix)


def left_open(what: str, clause: str, fix: str) -> Told:
    """A placeholder of the documents: a name, and no word on what it does."""
    return Told("DSL701", f"{what} is a placeholder in {clause}, which does not say what it does", fix)


def moved(key: str, to: str) -> Told:
    return Told("DSL307", f"{key} does not belong here", f"write {to}")


def control(key: str) -> Told:
    return Told("DSL502", f"{key} is a control action, which only a task's policy may hold",
                f"write {_RULES}")


CONTROL = {key: control(key) for key in ("do", "retry", "jump", "break", "continue", "fail", "rules")}

EXECUTOR = {
    "policy": moved("policy", "spec: {policy: …} in executor"),
    "pool": moved("pool", "spec: {pool: …} in executor"),
    "profile": moved("profile", "kind: distributed or kind: local"),
    "version": Told("DSL307", "version does not belong here", "remove it, or write metadata: {version: …}"),
    "requires": Told("DSL307", "requires is checked by the compiler alone", "remove it"),
}

_BY_KEY = 'write limits: {key: "… {{ iter.<name> }}", max: 1} in the policy of the step: one at a time for each key'
_NO_TRACING = "remove it: every event is in the log with its trace id"
_EMIT = "remove it: every event is in the log; to tell others, add a task of kind nats or http"

EXECUTOR_POLICY = {
    **{key: left_open(key, "V10 §5.1", "remove it; where steps run is said by spec: {pool: …} or spec: {requires: […]}")
       for key in ("placement", "cost", "cost_model", "quantum", "quantum_backends")},
    "emit": left_open("emit", "V10 §5.2.2", _EMIT),
    "tracing": left_open("tracing", "V10 §5.2.2", _NO_TRACING),
}

DEFAULTS = {
    "resources": left_open("defaults.resources", "V10 §5.1",
                           "set resources on the worker pool and write spec: {pool: …}; of a container they are "
                           "runtime: {resources: …}"),
    "timeout_s": moved("timeout_s", "timeouts: {step_s: …} in defaults"),
}

EXECUTOR_SPEC = {
    "final_step": unsupported("final_step", "lead the last steps to it: next: {arcs: [{step: …}]}, and for a failure "
                              "an arc with when: \"{{ event.name == 'step.failed' }}\""),
    "no_next_is_error": moved("no_next_is_error", "a last arc without when, to a step that fails"),
}

ROOT = {
    "vars": Told("DSL306", "a playbook has no root vars",
                 "put inputs under workload, and write state with set_ctx in a task's rules"),
    "name": Told("DSL301", "name at the root belongs to the formal dialect", "write metadata: {name: …}"),
    "path": Told("DSL301", "path at the root belongs to the formal dialect", "write metadata: {path: …}"),
    "steps": moved("steps", "workflow: [{step: …}]"),
    "spec": Told("DSL307", "spec does not belong here", "write executor: {spec: …}, and inputs under workload"),
    "tracing": unsupported("tracing", "remove it: every event is in the log with its trace id"),
}

FORMAL = ("args", "vars", "set", "case", "sink", "retry", "result")  # of a step, where lowering has not taken them
STEP = {
    "when": WHEN_STEP, "eval": EVAL, "expr": EXPR, "pipe": PIPE, "case": CASE, "sink": SINK, "retry": RETRY,
    "vars": VARS, "args": ARGS, "choose": _SUGAR, "while": _SUGAR, "until": _SUGAR,
    "input": unsupported("input on a step", "write next: {arcs: [{step: …, args: {…}}]} on the step before"),
    "set": unsupported("set on a step", "write set_ctx: {…} in a rule of a task"),
    "result": Told("DSL301", "result on a step belongs to today's dialect", "write output_select: [name] on its task"),
    "output": Told("DSL301", "output on a step belongs to today's dialect", "write output_select: [name] on its task"),
    "policy": moved("policy", "spec: {policy: …}"),
    "arcs": moved("arcs", "next: {arcs: […]}"),
    "kind": moved("kind", "tool: {kind: …}"),
    "name": moved("name", "step: <name>"),
    "pool": moved("pool", "spec: {pool: …}"),
}

STEP_POLICY = {
    **CONTROL,
    "emit": left_open("emit", "V10 §5.2.2", _EMIT),
    "tracing": left_open("tracing", "V10 §5.2.2", _NO_TRACING),
    "quotas": left_open("quotas", "V10 §5.2.2", "write limits: {key: …, max: 5, rate: 100/m} in the step's policy"),
    "compensation": moved("compensation", "compensate: <step> in the step's policy"),
    "mode": moved("mode", "loop: {spec: {mode: …}}"),
    "max_in_flight": moved("max_in_flight", "loop: {spec: {max_in_flight: …}}"),
    "exec": moved("exec", "loop: {spec: {policy: {exec: …}}}"),
    "timeout_s": moved("timeout_s", "lifecycle: {timeout_s: …}"),
}

COMPENSATE_FIX = "write compensate: <step>, or compensate: {step: …, args: {…}}"
COMPENSATE = {key: unsupported(f"{key} in compensate", "put the task into a step and write compensate: <step>")
              for key in ("task", "tool", "kind")}

ADMIT = {key: value for key, value in CONTROL.items() if key != "rules"}

LOOP = {
    "mode": moved("mode", "spec: {mode: …} in the loop"),
    "max_in_flight": moved("max_in_flight", "spec: {max_in_flight: …} in the loop"),
    "policy": moved("policy", "spec: {policy: …} in the loop"),
    "stop_when": moved("stop_when", "spec: {stop_when: …} in the loop"),
    "cursor": unsupported("cursor here", "put it on the outermost loop of the step, without loops within it"),
    "expr": EXPR,
}

SET_BY_LOOP = moved("set_ctx", "set_ctx: {…} on the outermost loop of the step")
INNER_LOOP = {key: moved(key, f"spec: {{{key}: …}} on the outermost loop")
              for key in ("max_in_flight", "stop_when", "policy")}
TASK_LOOP = unsupported("a loop within the loop of a task", "put the outer one on the step: loop: {in: …, iterator: …}")

LOOP_HINTS = {
    **dict.fromkeys(("reducer", "reducers"), left_open(
        "reducers of a loop", "V10 §5.3 and §15",
        "write set_ctx: {total: {$add: …}} in a rule of the task; also $append, $extend, $max, $min, $union, $merge")),
    "backpressure": left_open("backpressure", "V10 §5.3", "write max_in_flight: … in loop.spec, and limits: "
                              "{max: …, rate: …} in the policy of the step"),
    **dict.fromkeys(("partition", "partitioning"), left_open("partitioning of a loop", "V10 §5.3", _BY_KEY)),
    **dict.fromkeys(("order", "ordering"), left_open(
        "ordering", "V10 §5.3",
        "write mode: sequential to run in order; results are in the order of the elements anyway")),
}

LOOP_POLICY = {
    **CONTROL,
    **LOOP_HINTS,
    "failure": moved("failure", "spec: {policy: {failure: …}} on the step"),
}

TASK = {
    "eval": EVAL, "expr": EXPR, "pipe": PIPE, "case": CASE, "sink": SINK, "retry": RETRY, "vars": VARS,
    "when": Told("DSL307", "a task has no when of its own",
                 "jump over it: a rule of the task before with then: {do: jump, to: …}"),
    "policy": moved("policy", "spec: {policy: …}"),
    "rules": moved("rules", "spec: {policy: {rules: […]}}"),
    "next": Told("DSL307", "a task cannot start steps (V10 §1)", f"write {_ARCS} on the step"),
    "input": unsupported("input", "rename input to args"),
    "set": unsupported("set on a task", "write set_ctx: {…} in a rule of the task"),
    "timeout": moved("timeout", "spec: {timeout: …}"),
    "timeout_s": moved("timeout_s", "spec: {timeout: …}"),
}

TASK_POLICY = {
    **{key: value for key, value in CONTROL.items() if key != "rules"},
    "admit": moved("admit", "spec: {policy: {admit: …}} on the step"),
    "lifecycle": moved("lifecycle", "spec: {policy: {lifecycle: …}} on the step"),
    "failure": moved("failure", "spec: {policy: {failure: …}} on the step"),
}

TASK_HOOKS = {
    "before": left_open("before", "V10 §5.4", "put a task in front of this one, or write before: []"),
    "after": left_open("after", "V10 §5.4", "put a task behind this one, or write after: []"),
    "finally": left_open("finally", "V10 §5.4", "put a task behind this one and let the rules jump to it for errors "
                         "too, or write finally: []"),
}
TASK_MODE = left_open("a mode other than exclusive", "V10 §5.4", "write mode: exclusive, or leave it out: the first "
                      "rule that matches decides")
ON_UNMATCHED = left_open("on_unmatched other than continue", "V10 §5.4", "end the rules with - else: "
                         "{then: {do: fail}}, or what else should be done")

THEN = {
    "next": Told("DSL307", "a task cannot start steps (V10 §1)", f"write {_ARCS} on the step"),
    "set": unsupported("set", "write set_ctx: {…} or set_iter: {…}"),
    "set_vars": moved("set_vars", "set_ctx: {…}"),
    "sink": SINK, "vars": VARS,
    "max_attempts": moved("max_attempts", "attempts: …"),
    "initial_delay": moved("initial_delay", "delay: …"),
    "backoff_multiplier": moved("backoff_multiplier", "backoff: exponential"),
    "allow": moved("allow", "admission under spec: {policy: {admit: …}} on the step"),
}

NEXT = {
    **CONTROL,
    "step": NEXT_TEXT,
    "mode": moved("mode", "spec: {mode: …} in next"),
    "when": moved("when", "arcs: [{step: …, when: …}]"),
}

NEXT_POLICY = {
    **CONTROL,
    "priority": left_open("priority of a router", "V10 §5.5", "write executor: {spec: {policy: {priority: 0 to 9}}}"),
    "dedupe": left_open("dedupe of a router", "V10 §5.5", "write spec: {policy: {admit: {join: any}}} on the step it "
                        "leads to: the first token enters"),
    "partitioning": left_open("partitioning of a router", "V10 §5.5", "write limits: {key: …, max: …} in the policy of "
                              "the step it leads to"),
}

NEXT_SPEC = {
    **CONTROL,
    **{key: NEXT_POLICY[key] for key in ("priority", "dedupe", "partitioning")},
    "on_no_match": Told("DSL301", "on_no_match belongs to today's dialect",
                        "remove it, or add a last arc without when to a step that fails"),
}

ARC = {
    **CONTROL,
    "expr": EXPR,
    "cond": Told("DSL303", "cond is not a key of an arc", 'write when: "{{ … }}"'),
    "then": NEXT_TEXT,
    "spec": left_open("spec on an arc", "V10 §3 and §15", "remove it; when and args are beside step, and what should "
                      "hold for the step belongs into its own spec"),
    "else": moved("else", "a last arc without when"),
    "set": unsupported("set on an arc", "pass args: {…}"),
    "input": unsupported("input on an arc", "rename input to args"),
}

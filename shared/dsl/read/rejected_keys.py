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

STEP = {
    "when": WHEN_STEP, "eval": EVAL, "expr": EXPR, "pipe": PIPE, "case": CASE, "sink": SINK, "retry": RETRY,
    "vars": VARS, "args": ARGS, "choose": _SUGAR, "while": _SUGAR, "until": _SUGAR,
    "input": unsupported("input on a step", "write next: {arcs: [{step: …, args: {…}}]} on the step before"),
    "set": unsupported("set on a step", "write set_ctx: {…} in a rule of a task"),
    "result": Told("DSL301", "result on a step belongs to today's dialect", "write output_select: [name] on its task"),
    "output": Told("DSL307", "a step has no output of its own: its result is that of its last task",
                   "end with a task whose result it is, or write result: <expression> in a task's rule"),
    "policy": moved("policy", "spec: {policy: …}"),
    "arcs": moved("arcs", "next: {arcs: […]}"),
    "kind": moved("kind", "tool: {kind: …}"),
    "name": moved("name", "step: <name>"),
    "pool": moved("pool", "spec: {pool: …}"),
}

STEP_POLICY = {
    **CONTROL,
    "emit": unsupported("emit", "remove it: every event is emitted"),
    "tracing": unsupported("tracing", "remove it"),
    "quotas": unsupported("quotas", "remove it"),
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

LOOP_POLICY = {
    **CONTROL,
    **{key: unsupported(key, "remove it")
       for key in ("ordering", "reducers", "backpressure", "partitioning")},
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

NEXT_SPEC = {
    **CONTROL,
    "on_no_match": Told("DSL301", "on_no_match belongs to today's dialect",
                        "remove it, or add a last arc without when to a step that fails"),
}

ARC = {
    **CONTROL,
    "expr": EXPR,
    "cond": Told("DSL303", "cond is not a key of an arc", 'write when: "{{ … }}"'),
    "then": NEXT_TEXT,
    "spec": unsupported("spec on an arc", "remove it"),
    "else": moved("else", "a last arc without when"),
    "set": unsupported("set on an arc", "pass args: {…}"),
    "input": unsupported("input on an arc", "rename input to args"),
}

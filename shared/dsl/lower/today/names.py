"""Names that playbooks of today read, as names of the documents:

    output                 the result of the task at hand in its rules and its `set`, of the task before in the keys of
                           a task, of the step in its arcs; with .data, .error, .status, .response, .body, .rows
    <step>                 the same, in the step's own rules
    <step>.results.<task>  the result of one of a step's tasks
    result                 that of the step before, where one step alone leads here
    job.execution_id       execution_id
    now()                  _now, the time of the decision

An execution that began when these were nothing goes on so: they belong to the third edition of the language.
"""

from collections.abc import Mapping, Set

from msgspec.structs import replace

from shared.dsl.lower.names import Names, attributes_read, renamed_node
from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, items, listed, replaced, text_of
from shared.dsl.lower.program import asks_for, lower_program
from shared.dsl.lower.sugar import SUGAR, is_sugar
from shared.dsl.lower.tasks import split
from shared.dsl.lower.today.shapes import with_input
from shared.dsl.lower.today.survey import Survey, kind_of, survey, texts
from shared.dsl.source.nodes import Entry, Node
from shared.dsl.templates.names import NOW

SINCE = 3  # the edition that reads them
ENDED = "output_ended"  # key of `iter`: how the task before ended
SQL = ("postgres", "duckdb", "ducklake", "snowflake")
COMMON = Names(dotted={("job", "execution_id"): "execution_id"}, now=NOW)
_SETS = ("set", "set_ctx", "set_iter")
_FORMAL = (*_SETS, "vars", "case", "sink", "retry")
_NESTED = ("then", "else", "do", *SUGAR)
_ENVELOPES = {"http": ("status_code", "headers", "data"),
              **dict.fromkeys(SQL, ("rows", "row_count", "columns", "data"))}


def todays_names(env: Env, root: Node) -> Node:
    """The playbook with these names replaced; itself when it reads none of them."""
    workflow = get(root, "workflow")
    if env.edition < SINCE or workflow is None or not is_list(workflow):
        return root
    known = survey(env, root)
    env.workbook = {name: _task(env, body, _keys({}), _rules(kind_of(env, body), {}))
                    for name, body in env.workbook.items()}
    elsewhere = {(name, "results", task): f"ctx.{_kept_as(name, task)}" for name, tasks in known.kept.items()
                 for task in tasks}
    steps = [_step(env, known, elsewhere, each) if text_of(get(each, "step")) else each for each in workflow.value]
    workload = get(root, "workload")
    given = {"workload": renamed_node(workload, COMMON)} if workload is not None else {}
    return changed(root, {"workflow": replaced(workflow, steps), **given})


def _step(env: Env, known: Survey, elsewhere: Mapping[tuple[str, str, str], str], node: Node) -> Node:
    step = text_of(get(node, "step"))
    kind = known.last_kind(step)
    outside, own = _keys(elsewhere), known.args[step]
    keys = _with_result(known, step, outside, own)
    names = {**dict.fromkeys(("loop", "spec"), keys),
             **dict.fromkeys(("args", "input"), _with_result(known, step, outside)),
             **dict.fromkeys(_FORMAL, _formal(kind)), "next": _arcs(kind, elsewhere)}
    put: dict[str, Node | None] = {key: renamed_node(below, names[key]) for key, below in items(node) if key in names}
    if (tool := get(node, "tool")) is not None:
        put["tool"] = _tool(env, known, step, tool, keys)
    return changed(node, put)


def _kept_as(step: str, task: str) -> str:
    return f"{step}_results_{task}".replace("-", "_")


# -- the tasks of a step -------------------------------------------------------------------------


def _tool(env: Env, known: Survey, step: str, tool: Node, keys: Names) -> Node:
    own = {(step, "results", task): task for task in known.tasks[step]}
    taken = step in known.data | known.args[step] | known.brought.get(step, frozenset())
    named = {} if taken or not step.isidentifier() else {step: "outcome.result"}
    keys = replace(keys, deep={**keys.deep, **own})
    kept = known.kept.get(step, frozenset())
    if is_map(tool):
        label, kind = next(iter(known.tasks[step].items()), ("", ""))
        return _keeping(_task(env, tool, keys, _rules(kind, own, label, named)), step, label, kind, kept)
    if not is_list(tool):
        return tool
    return replaced(tool, _listed(env, step, tool.value, keys, own, named, kept))


def _listed(env: Env, step: str, tasks: list[Node], keys: Names, own: Mapping[tuple[str, str, str], str],
            named: Mapping[str, str], kept: Set[str]) -> list[Node]:
    found, before = list[Node](), ""
    ends = any(_asks_how(each, index) for index, each in enumerate(tasks))
    for index, item in enumerate(tasks):
        if not is_map(item):
            found.append(item)
            continue
        label, body = split(item, f"task_{index}")
        here = _after(keys, before) if index else keys
        if is_sugar(env, body):
            found.append(_sugar(env, step, body, here, own, named))
            continue
        before = kind_of(env, body)
        new = _keeping(_task(env, body, here, _rules(before, own, label, named)), step, label, before, kept)
        if ends:
            new = _also(new, "set_iter", ENDED, "{{ dict(status=outcome.status, error=outcome.error) }}")
        found.append(new if body is item else changed(item, {label: new}))
    return found


def _sugar(env: Env, step: str, node: Node, keys: Names, own: Mapping[tuple[str, str, str], str],
           named: Mapping[str, str]) -> Node:
    """`choose`, `while`, `until`: conditions see the task before, and within are tasks."""
    if is_list(node):
        if any(is_map(each) and get(split(each, "")[1], "kind") is not None for each in listed(node)):
            return replaced(node, _listed(env, step, node.value, _after(keys, ""), own, named, frozenset()))
        return replaced(node, [_sugar(env, step, each, keys, own, named) for each in node.value])
    if not is_map(node):
        return node
    put: dict[str, Node | None] = {
        key: _sugar(env, step, below, keys, own, named) if key in _NESTED else renamed_node(below, keys)
        for key, below in items(node)}
    return changed(node, put)


def _task(env: Env, body: Node, keys: Names, rules: Names) -> Node:
    """Its keys see what was before it, its rules what it came to; a program is not a template, but what it holds of
    them is handed over."""
    if "{{" in text_of(get(body, "code")):
        body = lower_program(env, with_input(body))
    elif "result" in keys.plain and asks_for("result", with_input(body)):
        body = with_input(body)
        body = changed(body, {"args": changed(get(body, "args") or build(body.position, {}),
                                              {"result": build(body.position, "{{ result }}")})})
    tool = env.kinds.get(text_of(get(body, "kind")))
    verbatim = {key for key, spec in tool.keys.items() if not spec.template} if tool is not None else set()
    put: dict[str, Node | None] = {}
    for key, below in items(body):
        if key in _SETS:
            put[key] = renamed_node(below, rules)
        elif key == "retry":
            put[key] = renamed_node(below, _formal(text_of(get(body, "kind"))))
        elif key == "spec" and is_map(below):
            put[key] = changed(below, {name: renamed_node(each, rules if name == "policy" else keys)
                                       for name, each in items(below)})
        elif key not in verbatim:
            put[key] = renamed_node(below, keys)
    return changed(body, put)


def _keeping(body: Node, step: str, label: str, kind: str, kept: Set[str]) -> Node:
    """A task whose result other steps read keeps it in ctx: of a step the log has the last task's result alone."""
    if label not in kept:
        return body
    fields = ", ".join(f"{field}=outcome.result.{field}" for field in _ENVELOPES.get(kind, ()))
    return _also(body, "set_ctx", _kept_as(step, label), f"{{{{ dict({fields}) if outcome.status == 'ok' }}}}"
                 if fields else "{{ outcome.result }}")


def _also(body: Node, key: str, name: str, value: str) -> Node:
    given = get(body, key)
    if given is not None and not is_map(given):
        return body  # reported by the reader
    entries = dict(given.value) if given is not None else {}
    entries[name] = Entry(body.position, build(body.position, value))
    return changed(body, {key: Node(body.position, entries)})


def _asks_how(item: Node, index: int) -> bool:
    """Whether the keys of a task read how the one before it ended."""
    body = split(item, "")[1] if is_map(item) else item
    below = [each for key, each in items(body) if key not in (*_SETS, "spec", "retry")]
    return index > 0 and any(attributes_read(text, "output") & {"status", "error"} for each in below
                             for text in texts(each))


# -- what the names are --------------------------------------------------------------------------


def _output(view: str, kind: str, status: str, error: str) -> Names:
    dotted = {"data": f"{view}.data", "body": f"{view}.data", "result": view, "response": view, "status": status,
              "error": error}
    deep = {("output", "data", field): f"{view}.{field}" for field in ("rows", "row_count", "columns") if kind in SQL}
    return replace(COMMON, plain={"output": view}, deep=deep,
                   dotted={**COMMON.dotted, **{("output", name): text for name, text in dotted.items()}})


def _keys(results: Mapping[tuple[str, str, str], str]) -> Names:
    return replace(COMMON, deep=results)


def _after(keys: Names, kind: str) -> Names:
    """The keys of a task that is not the first."""
    found = _output("_prev", kind, f"iter.{ENDED}.status", f"iter.{ENDED}.error")
    return replace(found, plain={**keys.plain, **found.plain}, deep={**keys.deep, **found.deep})


def _rules(kind: str, own: Mapping[tuple[str, str, str], str], label: str = "",
           named: Mapping[str, str] | None = None) -> Names:
    found = _output("outcome.result", kind, "outcome.status", "outcome.error")
    more = {("output", name): f"outcome.{name}" for name in ("http", "pg", "py", "meta")}
    deep = {pair: "outcome.result" if task == label else task for pair, task in own.items()}
    return replace(found, plain={**found.plain, **(named or {})}, dotted={**found.dotted, **more},
                   deep={**deep, **found.deep})


def _arcs(kind: str, results: Mapping[tuple[str, str, str], str]) -> Names:
    found = _output("event.result", kind, "('error' if event.error is not none else 'ok')", "event.error")
    status = "(event.result.status_code if event.error is none else event.error.status)"
    return replace(found, deep={**results, **found.deep, ("output", "http", "status"): status})


def _formal(kind: str) -> Names:
    """`set` and `vars` of a step, `case` and `sink` have names of their own for it."""
    found = _output("response", kind, "output.status", "output.error")
    return replace(found, dotted={**found.dotted, ("output", "data"): "output.data",
                                  ("output", "result"): "output.result"})


def _with_result(known: Survey, step: str, keys: Names, own: Set[str] = frozenset()) -> Names:
    """`result` where one step leads here, and nothing else is called so, `own` included."""
    before = [each for each in known.before.get(step, ()) if each != step]
    taken = {*known.data, *known.brought.get(step, ()), *own, *known.tasks, *known.tasks.get(step, {})}
    if len(before) != 1 or "result" in taken or not before[0].isidentifier():
        return keys  # of several, or of none, the check of names says what to write
    view = f"{before[0]}.result" if known.last_kind(before[0]) in _ENVELOPES else before[0]
    return replace(keys, plain={**keys.plain, "result": view})

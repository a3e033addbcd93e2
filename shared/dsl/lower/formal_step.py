"""A formal step to a canonical one: its tasks, with what comes before and behind them (`formal/tail.py`), and its arcs
(`formal/arcs.py`)."""

from typing import Any, Literal

from msgspec.structs import replace

from shared.dsl.lower.build import (
    ERROR,
    OK,
    directive,
    has_policy,
    named,
    noop,
    otherwise,
    renamed_patch,
    renamed_task,
    rule,
    with_rules,
)
from shared.dsl.lower.case import Case, arcs, read_case, warn_of_codes, with_calls
from shared.dsl.lower.formal.arcs import Arcs, has_sinks
from shared.dsl.lower.formal.events import may_fail, refuse_acts_of_loops, tell, warn_of_iterations
from shared.dsl.lower.formal.retries import case_retries
from shared.dsl.lower.formal.tail import behind, decided, sending_keys
from shared.dsl.lower.formal_tail import Parts
from shared.dsl.lower.formal_tail import behind as former_behind
from shared.dsl.lower.name_meanings import (
    EVERYWHERE,
    condition,
    counted,
    key,
    on_arc,
    on_enter,
    patches,
    unwrapped,
    with_args,
    with_failures,
)
from shared.dsl.lower.names import (
    Names,
    attributes_read,
    expression,
    free_names,
    literal,
    reads_beyond,
    renamed_node,
    rewrite,
)
from shared.dsl.lower.next import plain_next, router
from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, items, listed, text_of
from shared.dsl.lower.retry import called, policy, start, whole
from shared.dsl.lower.task_retry import retried_sink
from shared.dsl.lower.tasks import split
from shared.dsl.lower.today.survey import texts
from shared.dsl.lower.workbook import arg_keys, hand_over
from shared.dsl.source.nodes import Node
from shared.dsl.templates.evaluate import is_template

_ANSWER = ("{{ dict(status_code=outcome.http.status | default(none), headers=outcome.result.headers | default(none), "
           "data=outcome.result.data | default(none)) }}")
FORMAL = ("args", "vars", "set", "set_ctx", "set_iter", "case", "sink", "retry")


def lower_formal(env: Env, step: str, node: Node, tool: Node | None) -> list[Node]:
    """The canonical step, and the steps generated beside it. `tool` is lowered already."""
    parts = _parts(env, step, node, tool)
    pipeline = _pipeline(parts) if env.edition > 3 and parts.tasks and _works(parts) else []
    following, generated = _next(parts)
    put: dict[str, Node | None] = dict.fromkeys(FORMAL)
    put["next"] = following
    if parts.args and get(node, "loop", "in") is not None:
        put["loop"] = _loop(parts)
    if parts.at_the_end:
        put["loop"] = _set_by_loop(parts, put.get("loop") or get(node, "loop"))
    if parts.tasks and _works(parts):
        put["tool"] = Node(tool.position if tool is not None else node.position, pipeline or _pipeline(parts))
    elif tool is not None:
        put["tool"] = tool
    return [changed(node, {name: new for name, new in put.items() if new is not None or name in node.value}),
            *generated]


def _parts(env: Env, step: str, node: Node, tool: Node | None) -> Parts:
    rules = get(node, "case")
    cases = with_calls(env, read_case(env, rules), get(node, "next")) if rules is not None else []
    env.cases |= {step} if cases else set()
    args = get(node, "args")
    if args is not None and args.value is not None and not is_map(args):
        env.error(args, "DSL203", "args must be a mapping", "write args: {name: value}")
    keys = arg_keys(env, args)
    tasks = _named_tasks(step, node, tool)
    to_ctx, to_iter = patches(get(node, "set"))
    vars_ = dict(items(get(node, "vars")))
    whole_loop = env.edition > 2 and is_map(get(node, "loop"))
    to_ctx |= {**({} if whole_loop else vars_), **dict(items(get(node, "set_ctx")))}
    to_iter |= dict(items(get(node, "set_iter")))
    sink = get(node, "sink")
    sinks = (listed(sink) if is_list(sink) else [sink]) if sink is not None else []
    sinks = [retried_sink(env, step, each) for each in sinks]
    cases = [replace(case, sinks=[retried_sink(env, step, each) for each in case.sinks]) for case in cases]
    kind = text_of(get(tasks[-1], "kind")) if tasks else ""
    main = text_of(get(tasks[-1], "name")) if tasks else ""
    errors = any(case.acts and (may_fail(case, step) if env.edition > 2 else case.errors) for case in cases)
    retry = start(env, step, kind, keys, node)
    warn_of_codes(env, node, cases, kind)
    if env.edition > 3:
        refuse_acts_of_loops(env, cases)
        if get(node, "loop") is not None:
            warn_of_iterations(env, cases, step)
    if env.edition > 2:
        tell(env, cases, step)
        if whole_loop and vars_:
            env.note(node, f"vars of step {step[:60]!r} are taken once, of the result of its loop",
                     "write set_ctx: {…} on the step for what each iteration writes")
    return Parts(
        env=env, step=step, node=node, tasks=tasks, args=keys, cases=cases, sinks=sinks, set_ctx=to_ctx,
        set_iter=to_iter, retry=retry, main=main, errors=errors, at_the_end=vars_ if whole_loop else {},
        meta={key(step, "meta"): "{{ outcome.meta }}"} if env.edition > 2 and _reads_meta(node) else {},
        answered=_answered(step, cases, looped=get(node, "loop") is not None) if env.edition > 3 else frozenset(),
    )


def _answered(step: str, cases: list[Case], *, looped: bool) -> frozenset[Literal["iter", "ctx"]]:
    """Who reads more of a failed call than its status and its error: what rules do, on the worker, and where they
    lead. A loop has failed by one of its iterations, whose answer is not the loop's."""
    found: set[Literal["iter", "ctx"]] = set()
    for case in cases:
        if case.enters or not may_fail(case, step):
            continue
        when = [case.when] if isinstance(case.when, str) else []
        done = [*case.set_ctx.values(), *case.set_iter.values(), *case.sinks, *([case.answer] if case.answer else [])]
        led = [node for node in (case.next, case.call) if node is not None]
        if case.acts and _reads_answer([*when, *(text for node in done for text in texts(node))]):
            found.add("iter")
        if led and not looped and _reads_answer([*when, *(text for node in led for text in texts(node))]):
            found.add("ctx")
    return frozenset(found)


def _reads_answer(found: list[str]) -> bool:
    return any(reads_beyond(text, {"response", "this", "result", "output"}, {"status_code", "error", "status", "meta"})
               for text in found)


def _reads_meta(node: Node) -> bool:
    """FS §8.3: what is stored and set may read `this.meta`, that of the call."""
    return any("meta" in attributes_read(text, "this") for name, below in items(node) if name != "tool"
               for text in texts(below))


def _named_tasks(step: str, node: Node, tool: Node | None) -> list[Node]:
    if tool is None:
        return [build(node.position, {"name": f"{step}_task", "kind": "noop"})]
    if is_map(tool):
        return [tool if get(tool, "name") is not None else named(tool, f"{step}_task")]
    found = []
    for index, item in enumerate(listed(tool)):
        if is_map(item):
            label, body = split(item, f"task_{index}")
            found.append(body if get(body, "name") is not None else named(body, label))
    return found


def _works(parts: Parts) -> bool:
    """Whether anything is done on the worker beside the tool itself."""
    node = parts.node
    return bool(parts.args or parts.set_ctx or parts.set_iter or parts.sinks) or get(node, "retry") is not None \
        or any(case.acts or case.retry is not None for case in parts.cases) or bool(parts.answered)


def _next(parts: Parts) -> tuple[Node | None, list[Node]]:
    node, loop = parts.node, get(parts.node, "loop") is not None
    following = get(node, "next")
    names = _arc_names(parts, loop=loop)
    if not parts.cases:
        return (plain_next(parts.env, following, names) if following is not None else None), []
    at = (get(node, "case") or node).position
    if parts.env.edition > 2:
        led = Arcs(parts, names)
        led.of_case(decided(parts), has_sinks(parts), sending_keys(parts))
        led.of_next(following)
        return router(at, led.found, inclusive=False), led.steps
    found, generated = arcs(parts.env, parts.cases, following, parts.step, names, loop=loop,
                            decided=parts.decided)
    return router(at, found, inclusive=False), generated


def _arc_names(parts: Parts, *, loop: bool) -> Names:
    """What arcs read. The pipeline's `iter` is gone by then, so an argument of the step is written out, if it is
    the same then: what reads `vars` may not be."""
    kept = f"(ctx.{key(parts.step, 'answered')} if event.error.task is defined)" if "ctx" in parts.answered else ""
    names = unwrapped(on_arc(parts.kind, loop=loop), parts.env.edition)
    names = with_failures(names, parts.env.edition, "event.result", kept)
    written = {}
    used = _read_by_arcs(parts) if parts.args else {}
    for name, value in items(get(parts.node, "args")):
        text = literal(value.value) if not is_template(str(value.value)) else expression(text_of(value))
        if text is not None and not free_names("{{ " + text + " }}") & {"vars", "ctx"}:
            written[name] = f"({text})"
        elif name in used:
            parts.env.error(used[name], "DSL301", f"an arc cannot read the argument {name!r}",
                            f'write vars: {{{name}: "{{{{ {name} }}}}"}} and read vars.{name}')
    dotted = {**names.dotted, **{("args", name): text for name, text in written.items()}}
    return replace(names, plain={**names.plain, **written}, dotted=dotted)


def _read_by_arcs(parts: Parts) -> dict[str, Node]:
    """The bare names that `next` and the case's conditions and `next` read, each with where."""
    found: dict[str, Node] = {}
    led = [node for case in parts.cases for node in (case.next, case.call)]
    stack = [node for node in (get(parts.node, "next"), *led) if node is not None]
    stack += [build(case.position, case.when) for case in parts.cases if case.leads]
    while stack:
        node = stack.pop()
        if isinstance(node.value, str):
            found |= dict.fromkeys(free_names(node.value), node) if is_template(node.value) else {}
        stack += [below for _, below in items(node)] + listed(node)
    return found


def _loop(parts: Parts) -> Node | None:
    """`loop.in` is evaluated before the pipeline, so an argument in it is written out."""
    loop, args = get(parts.node, "loop"), get(parts.node, "args")
    assert loop is not None
    over = get(loop, "in")
    inner = {name: text for name, value in items(args)
             if (text := expression(rewrite(text_of(value), EVERYWHERE))) is not None}
    names = Names(plain={name: f"({text})" for name, text in inner.items()})
    within = get(loop, "loop")
    put = {"loop": renamed_node(within, names)} if within is not None else {}
    return changed(loop, {"in": renamed_node(over, names), **put}) if over is not None else loop


def _set_by_loop(parts: Parts, loop: Node | None) -> Node | None:
    """`vars` of a loop step are those of its result, when it is done (FX §8.1)."""
    if loop is None:
        return None
    patch = renamed_patch(parts.at_the_end, _arc_names(parts, loop=True))
    return changed(loop, {"set_ctx": build(parts.node.position, {**patch, **dict(items(get(loop, "set_ctx")))})})


# -- the pipeline --------------------------------------------------------------------------------


def _pipeline(parts: Parts) -> list[Node]:
    args = get(parts.node, "args")
    names = with_args(replace(EVERYWHERE, dotted=counted(parts.step)), parts.args)
    tasks = [hand_over(renamed_task(parts.env, each, names), parts.args) for each in parts.tasks]
    first = _entering(parts)
    if parts.args:
        bound = {parts.args[name]: value for name, value in items(args) if name in parts.args}
        first.append(noop(parts.node.position, parts.label("args", "the args"),
                          [otherwise(directive("continue", set_iter=renamed_patch(bound, EVERYWHERE)))]))
    rest, to = behind(parts) if parts.env.edition > 2 else former_behind(parts)
    tasks = _main(parts, tasks, to)
    if parts.retry.inits:
        first.append(noop(parts.node.position, parts.label("call", "the first call"),
                          [otherwise(directive("continue", set_iter=parts.retry.inits))]))
    return [*first, *tasks, *rest, *parts.retry.tasks]


def _entering(parts: Parts) -> list[Node]:
    """Rules on `step.enter` set things before the tool runs."""
    found = []
    for case in parts.cases:
        if not case.enters:
            continue
        names = on_enter()
        then = directive("continue", set_ctx=renamed_patch(case.set_ctx, names),
                         set_iter=renamed_patch(case.set_iter, names))
        found.append(noop(case.position, parts.label("enter", "a rule on step.enter"),
                          [rule(build(case.position, condition(case.when, names)), then),
                           otherwise(directive("continue"))]))
    return found


def _main(parts: Parts, tasks: list[Node], to: dict[str, str]) -> list[Node]:
    """The author's tasks with what retrying asks of the last one, and the way on after them."""
    retry = parts.retry
    given = get(parts.node, "retry")
    if given is not None:
        whole(parts.env, retry, given, parts.main)
    if parts.env.edition > 2:
        case_retries(parts, _fails(parts, parts.tasks[-1], to))
    else:
        _case_retries(parts, to)
    if retry.last and has_policy(tasks[-1]):
        parts.env.error(parts.node, "DSL301", "collect and a policy of the task cannot stand together",
                        "move the task's rules into retry policies")
    last = called(tasks[-1], retry)
    kept = {**retry.last, **parts.meta}
    rest = [rule(ERROR, _fails(parts, last, to)), rule(OK, directive("continue", set_iter=kept))]
    if retry.rules or parts.errors or parts.answered or kept:
        last = with_rules(_redirected(parts, last, to), retry.rules, rest)
    else:
        last = _redirected(parts, last, to)
    return [*(_handled(parts, each, to) for each in tasks[:-1]), last]


def _handled(parts: Parts, task: Node, to: dict[str, str]) -> Node:
    """A task before the last one: its errors are the case's too."""
    task = _redirected(parts, task, to)
    if not (parts.errors or parts.answered) or has_policy(task):
        return task
    return with_rules(task, [], [rule(ERROR, _fails(parts, task, to)), otherwise(directive("continue"))])


def _fails(parts: Parts, task: Node, to: dict[str, str]) -> dict[str, Any]:
    """What an error does: the case decides when it has something to do about it."""
    kept = {scope: {key(parts.step, "answered"): _ANSWER} for scope in parts.answered}
    if not parts.errors:
        return directive("fail", set_ctx=kept.get("ctx"))
    kind = text_of(get(task, "kind"))
    code = {"http": ", status=outcome.http.status", "postgres": ", code=outcome.pg.code"}.get(kind, "")
    error = "{{ dict(outcome.error" + code + ", task=_task, attempt=_attempt) }}"
    return directive("jump", to=to["case"], set_ctx=kept.get("ctx"),
                     set_iter={key(parts.step, "error"): error, **parts.meta, **kept.get("iter", {})})


def _redirected(parts: Parts, task: Node, to: dict[str, str]) -> Node:
    """In the author's own rules `break` ends the author's pipeline, and what lowering put behind it still
    runs; `fail` goes through the case when that handles errors."""
    rules = get(task, "spec", "policy", "rules")
    if rules is None or not is_list(rules):
        return task
    new = []
    for each in rules.value:
        owner = get(each, "else") if is_map(get(each, "else")) else each
        then = get(owner, "then")
        if owner is None or then is None or not is_map(then):
            new.append(each)
            continue
        put = _redirection(parts, task, then, to)
        moved = changed(owner, {"then": changed(then, put)})
        new.append(moved if owner is each else changed(each, {"else": moved}))
    return _put_rules(task, new)


def _put_rules(task: Node, rules: list[Node]) -> Node:
    spec, policy_node = get(task, "spec"), get(task, "spec", "policy")
    assert spec is not None
    assert policy_node is not None
    put = changed(policy_node, {"rules": Node(policy_node.position, rules)})
    return changed(task, {"spec": changed(spec, {"policy": put})})


def _redirection(parts: Parts, task: Node, then: Node, to: dict[str, str]) -> dict[str, Node | None]:
    do = text_of(get(then, "do"))
    if do == "break" and to["hub"]:
        return {"do": build(then.position, "jump"), "to": build(then.position, to["hub"])}
    if do == "fail" and (parts.errors or parts.answered):
        found = _fails(parts, task, to)
        put: dict[str, Node | None] = {
            scope: build(then.position, {**dict(items(get(then, scope))), **found[scope]})
            for scope in ("set_iter", "set_ctx") if scope in found}
        if parts.errors:
            put |= {"do": build(then.position, "jump"), "to": build(then.position, to["case"])}
        return put
    return {}


def _case_retries(parts: Parts, to: dict[str, str]) -> None:
    """As in the first two editions; that of today is in `formal/retries.py`."""
    retries = [index for index, case in enumerate(parts.cases) if case.retry is not None]
    names, rules = parts.retry.on_task(), parts.retry.rules
    for case in parts.cases[:retries[-1] + 1] if retries else []:
        when = condition(case.when, names) if case.when is not None else "{{ outcome.status == 'ok' }}"
        if case.enters:
            continue
        if case.retry is not None:
            block = case.retry
            if case.collect is not None and is_map(block):
                block = changed(block, {"collect": case.collect})
            policy(parts.env, parts.retry, when, block, parts.main, ends=False)
            continue
        if case.errors and (inner := expression(when)) is not None:
            failed = "{{ outcome.status == 'error' and (" + inner + ") }}"
            rules.append(rule(build(case.position, failed), _fails(parts, parts.tasks[-1], to)))
        rules.append(rule(build(case.position, when), directive("continue")))

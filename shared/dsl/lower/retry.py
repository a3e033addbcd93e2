"""`retry` of FS §7 and FX §6: rules on the main task. Repetition with another input jumps back to it,
with what changes, what is collected and the count kept in `iter`."""

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.lower.build import directive, noop, otherwise, rule, sink_task
from shared.dsl.lower.name_meanings import after_task, condition, key, on_task, unwrapped, with_args, with_failures
from shared.dsl.lower.names import (
    Names,
    attributes_read,
    expression,
    free_names,
    renamed_node,
    rewrite,
    written_of,
)
from shared.dsl.lower.nodes import Env, build, changed, get, is_map, items, listed, text_of
from shared.dsl.model.texts import Text
from shared.dsl.read.task_policy import MAX_ATTEMPTS
from shared.dsl.source.nodes import Node
from shared.dsl.templates.methods import METHODS

DEFAULT_ATTEMPTS = 3
DEFAULT_REPEATS = 100  # calls of one step-run that a policy without max_attempts may make
_KEYS = ("max_attempts", "initial_delay", "backoff_multiplier", "max_delay", "next_call", "params", "collect", "sink")
_FS_KEYS = ("max_attempts", "initial_delay", "backoff_multiplier", "max_delay", "retry_when", "stop_when")
_MESSAGE = "outcome.error.message if outcome.status == 'error'"
_METHODS = METHODS[str].keys() - {"count", "index", "title"}  # which an error may have as fields
_COUNTED = re.compile(r"(?<![\w.])_retry\.")
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*|\[\d+\])*\Z")


class Retry(Struct, kw_only=True):
    """What retrying adds to a step. `inits` are set in `iter` before the main task, `calls` are its keys
    that then come from there, `last` is set when it is over, `tasks` are done between two calls."""

    step: str
    kind: str
    args: dict[str, str]
    edition: int
    rules: list[dict[str, Any]]
    inits: dict[str, Any]
    calls: dict[tuple[str, str], str]
    last: dict[str, Any]
    tasks: list[Node]
    counts: bool = False  # `_retry` is read somewhere in the step
    repeats: bool = False  # it makes calls with another input, which `_retry.index` counts then

    def on_task(self, *, failures: bool = True) -> Names:
        names = unwrapped(on_task(self.step, self.kind), self.edition)
        if failures:
            names = with_failures(names, self.edition, "outcome.result", "outcome.result", "outcome.http.status")
        return with_args(names, self.args)


def start(env: Env, step: str, kind: str, args: dict[str, str], node: Node) -> Retry:
    retry = Retry(
        step=step, kind=kind, args=args, edition=env.edition, rules=[], inits={}, calls={}, last={}, tasks=[],
        counts=_mentions_retry(node), repeats=_repeats(node),
    )
    if retry.counts:
        retry.inits |= {key(step, "index"): 1, key(step, "count"): 1}
    return retry


def _repeats(node: Node) -> bool:
    """Any block of the step that changes the next call or collects: only those have these keys."""
    own = any(get(node, name) is not None for name in ("next_call", "collect", "call"))
    if own or get(node, "retry", "params") is not None:
        return True
    return any(_repeats(each) for each in [*listed(node), *(below for _, below in items(node))])


def _mentions_retry(node: Node) -> bool:
    if isinstance(node.value, str):
        return _COUNTED.search(node.value) is not None
    return any(_mentions_retry(each) for each in [*listed(node), *(below for _, below in items(node))])


def whole(env: Env, retry: Retry, node: Node, main: str) -> None:
    """The step's `retry`, in either shape."""
    if isinstance(node.value, list):
        before: list[str] = []  # of FX §6.2: the first policy that matches is the one, also when it is used up
        for each in listed(node):
            then = get(each, "then")
            if not is_map(then) or get(each, "when") is None:
                env.error(each, "DSL501", "a retry policy has when and then",
                          'write - when: "{{ … }}" with then: {max_attempts: …}')
                continue
            assert then is not None
            when = get(each, "when")
            assert when is not None
            test = rewrite(when.value, replace(retry.on_task(), asks=True)) if _reads_status(retry, when.value) \
                else condition(when.value, retry.on_task())
            inner = expression(test) if isinstance(test, str) else None
            if before and inner is not None:
                test = Text("{{ " + " and ".join([*before, f"({inner})"]) + " }}", written_of(when.value))
            if inner is not None and env.edition > 1:
                before.append(f"not ({inner})")
            policy(env, retry, test, then, main, ends=True)
    elif is_map(node):
        _formal(env, retry, node)
    else:
        env.error(node, "DSL203", "retry must be a mapping or a list of policies",
                  "write retry: {max_attempts: 3, initial_delay: 1}")


def _reads_status(retry: Retry, when: Any) -> bool:
    """FX §3.3: the raw `status_code` is that of a failed call too, so that a policy about it is one about failures."""
    if retry.edition < 3 or not isinstance(when, str):
        return False
    if retry.edition > 3 and any("status_code" in attributes_read(when, name) for name in ("response", "this")):
        return True
    return "status_code" in free_names(when) - retry.args.keys()


def _formal(env: Env, retry: Retry, node: Node) -> None:
    """FS §7.2: `stop_when` repeats until it holds; `retry_when` says what is tried again."""
    if not _known(env, node, _FS_KEYS, "retry"):
        return
    names = retry.on_task()
    most = get(node, "max_attempts")
    plain = {**names.plain, "max_attempts": str(most.value) if most is not None else str(DEFAULT_ATTEMPTS)}
    names = replace(names, plain=plain, asks=True, message=f"({_MESSAGE} else none)")
    if env.edition > 3:  # FS §7.3: `error` is a text
        methods = {("error", name): f"({_MESSAGE}).{name}" for name in _METHODS}
        names = replace(names, dotted={**names.dotted, **methods})
    parts = []
    for name in ("stop_when", "retry_when"):
        when = get(node, name)
        if when is None:
            continue
        inner = expression(rewrite(text_of(when), names))
        if inner is None:
            env.error(when, "DSL602", f"{name} is not an expression", f'write {name}: "{{{{ … }}}}"')
            return
        parts.append(f"not ({inner})" if name == "stop_when" else f"({inner})")
    test = " and ".join(parts) or "outcome.status == 'error'"
    said = ", ".join(f"{name}: {text_of(get(node, name))}" for name in ("retry_when", "stop_when")
                     if get(node, name) is not None)
    retry.rules.append(rule(Text("{{ " + test + " }}", said), _try_again(env, retry, node)))


def _known(env: Env, node: Node, known: tuple[str, ...], what: str) -> bool:
    unknown = [key for key, _ in items(node) if key not in known]
    for name in unknown:
        env.error(node.value[name].key, "DSL201", f"unknown key {name!r} in {what}", f"known here: {', '.join(known)}")
    return not unknown


def tries(env: Env, then: Node) -> Any:
    """`max_attempts`, told here by that name where it is none."""
    given = get(then, "max_attempts")
    if given is not None and (type(given.value) is not int or not 1 <= given.value <= MAX_ATTEMPTS):
        env.error(given, "DSL204", f"max_attempts must be a whole number from 1 to {MAX_ATTEMPTS}",
                  f"write max_attempts: {DEFAULT_ATTEMPTS} (all tries, the first included)")
        given = None
    return given or DEFAULT_ATTEMPTS


def pause(env: Env, then: Node, name: str) -> Node | None:
    """A number of a retry, told here by its name where it is below zero."""
    given = get(then, name)
    if given is None or type(given.value) not in (int, float) or given.value >= 0:
        return given
    env.error(given, "DSL204", f"{name} must not be below 0", f"write {name}: 1")
    return None


def _try_again(env: Env, retry: Retry, then: Node) -> dict[str, Any]:
    more = one_more(retry, *(("count",) if retry.repeats else ("index", "count"))) if retry.counts else {}
    found = directive("retry", attempts=tries(env, then), set_iter=more)
    delay, factor, most = (pause(env, then, name) for name in ("initial_delay", "backoff_multiplier", "max_delay"))
    if delay is not None:
        found["delay"] = delay
    if factor is not None and factor.value != 1:
        found |= {"backoff": "exponential", "multiplier": factor}
    if most is not None:
        found["max_delay"] = most
    return found


def one_more(retry: Retry, *what: str) -> dict[str, Any]:
    return {at: "{{ iter." + at + " + 1 }}" for at in (key(retry.step, each) for each in what)}


def policy(env: Env, retry: Retry, when: Any, then: Node, main: str, *, ends: bool) -> None:
    """One policy of FX §6. `ends`: the response that ends the repetition is collected and stored too."""
    if not _known(env, then, _KEYS, "then of a retry policy"):
        return
    if all(get(then, name) is None for name in ("next_call", "params", "collect", "sink")):
        retry.rules.append(rule(when, _try_again(env, retry, then)))
        return
    inner = expression(when) if isinstance(when, str) else None
    if inner is None:
        env.error(then, "DSL602", "a policy that changes the next call needs one expression as its when",
                  'write when: "{{ … }}"')
        return
    count = key(retry.step, "index")
    most = get(then, "max_attempts")
    limit = most.value if most is not None and type(most.value) is int else DEFAULT_REPEATS
    retry.inits.setdefault(count, 1)
    patch: dict[str, Any] = {}
    _next_call(retry, then, patch)
    collect = get(then, "collect")
    if collect is not None:
        names = _at_success(retry)
        patch |= gather(env, retry, collect, names)
        if ends:
            retry.last |= gather(env, retry, collect, names)
    test = Text("{{ " + f"({inner}) and iter.{count} < {limit}" + " }}", written_of(when))
    again = one_more(retry, *(("index", "count") if retry.counts else ("index",)))
    between = _between(env, retry, then, main, again)
    first = text_of(get(between[0], "name")) if between else main
    env.again[retry.step, main] = (*env.again.get((retry.step, main), ()), first)
    if between:
        retry.tasks += between
        retry.rules.append(rule(test, directive("jump", to=first, set_iter=patch)))
    else:
        retry.rules.append(rule(test, directive("jump", to=main, set_iter={**patch, **again})))
    if collect is not None and not ends and env.edition > 2:  # no call follows, and the response is there all the same
        retry.rules.append(rule(when, directive("continue", set_iter=gather(env, retry, collect, _at_success(retry)))))


def _at_success(retry: Retry) -> Names:
    """The names of the task's rules where its success is certain."""
    names = retry.on_task(failures=False)
    view = "(outcome.result if outcome.status == 'ok')"
    plain = {name: text.replace(view, "outcome.result") for name, text in names.plain.items()}
    return Names(plain, names.dotted, names.ok, names.failed)


def _between(env: Env, retry: Retry, then: Node, main: str, again: dict[str, Any]) -> list[Node]:
    """What is done before the next call: the policy's sink, and its delay."""
    tasks: list[Node] = []
    sink, delay = get(then, "sink"), get(then, "initial_delay")
    back = directive("jump", to=main, set_iter=again)
    pause = env.label(f"{retry.step}_pause", delay.position, "the delay of a retry policy") if delay is not None else ""
    if sink is not None:
        names = with_args(unwrapped(after_task(retry.step, retry.kind, errors=False), retry.edition), retry.args)
        names = Names({**names.plain, "page": "_prev"}, names.dotted, names.ok, names.failed)
        label = env.label(f"{retry.step}_each_sink", sink.position, "the sink of a retry policy")
        tasks += sink_task(env, sink, label, names, directive("jump", to=pause) if pause else back)
    if delay is not None:
        once = rule("{{ _attempt == 1 }}", directive("retry", attempts=2, delay=_pause(retry, then, delay)))
        tasks.append(noop(delay.position, pause, [once, otherwise(back)]))
    return tasks


def _pause(retry: Retry, then: Node, delay: Node) -> Any:
    factor = get(then, "backoff_multiplier")
    if factor is None or factor.value == 1 or type(factor.value) not in (int, float):
        return delay
    return "{{ " + f"{delay.value} * {factor.value} ** (iter.{key(retry.step, 'index')} - 1)" + " }}"


def _next_call(retry: Retry, then: Node, patch: dict[str, Any]) -> None:
    """`params` beside the policy, or sections of the tool's keys under `next_call`."""
    params = get(then, "params")
    sections = list(items(get(then, "next_call"))) + ([("params", params)] if params is not None else [])
    for section, node in sections:
        if not is_map(node):
            at = key(retry.step, section)
            retry.calls[section, ""] = at
            patch[at] = renamed_node(node, retry.on_task())
            continue
        for name, value in items(node):
            at = key(retry.step, f"{section}_{name}")
            retry.calls[section, name] = at
            patch[at] = renamed_node(value, retry.on_task())


def called(task: Node, retry: Retry) -> Node:
    """The main task with the keys that change from call to call read from `iter`."""
    for (section, name), at in retry.calls.items():
        old = get(task, section, name) if name else get(task, section)
        retry.inits[at] = old if old is not None else None
        new = build(task.position, "{{ iter." + at + " }}")
        if not name:
            task = changed(task, {section: new})
            continue
        owner = get(task, section)
        base = owner if owner is not None and is_map(owner) else build(task.position, {})
        task = changed(task, {section: changed(base, {name: new})})
    return task


def gather(env: Env, retry: Retry, collect: Node, names: Names, *, once: bool = False) -> dict[str, Any]:
    """The patch that adds a response to what is collected: `{strategy, path, into}`, or `{mode, from, into}`.
    `once`: the call is not repeated, so it goes to ctx, over the runs of the step."""
    into = text_of(get(collect, "into"))
    strategy = text_of(get(collect, "strategy") or get(collect, "mode")) or "append"
    if strategy not in ("append", "extend", "merge") or not into.isidentifier():
        env.error(collect, "DSL204", "collect needs into: <name> and strategy: append, extend or merge",
                  "write collect: {strategy: append, path: data.items, into: pages}")
        return {}
    if not once:
        retry.inits.setdefault(into, {} if strategy == "merge" else [])
    return {into: {"$merge" if strategy == "merge" else "$extend": _page(env, collect, names)}}


def _page(env: Env, collect: Node, names: Names) -> Text:
    """What of the response is added, named in errors by the author's `path` or `from`."""
    path, given = text_of(get(collect, "path")), text_of(get(collect, "from"))
    return Text("{{ " + _part(env, collect, names, path, given) + " }}", given or path or "response")


def _part(env: Env, collect: Node, names: Names, path: str, given: str) -> str:
    if given:
        inner = expression(given) or given
        found = expression(rewrite("{{ " + inner + " }}", names))
        return f"({found})"
    view = names.plain["response"]
    if path and not _PATH.match(path):
        env.error(collect, "DSL204", f"path {path[:60]!r} is not a path", "write path: data.items")
    if not path or not _PATH.match(path):
        return names.plain["result"]
    if env.edition < 3 or path.partition(".")[0] != "data":
        return f"{view}.{path}"
    return _below_data(f"{view}.data", path)


def _below_data(body: str, path: str) -> str:
    """`data` of a response is its body (FX §6.1), and many bodies have a `data` of their own: `data` alone is theirs,
    and so is what the body itself does not have."""
    if path == "data":
        return f"({body}.data if {body}.data is defined else {body})"
    rest = path.removeprefix("data.")
    return f"({body}.{rest} if {body}.{rest} is defined else {body}.data.{rest})"

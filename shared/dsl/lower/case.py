"""`case` (FX §7, FS §8): the rules of a step, read once. What they do becomes tasks on the worker, where
they lead becomes arcs."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.lower.name_meanings import condition, negated, patches
from shared.dsl.lower.names import Names, asks_for_errors, attributes_read, free_names, is_enter, written_of
from shared.dsl.lower.next import Target, arc, fan_out, is_router, targets
from shared.dsl.lower.nodes import Env, build, get, is_list, is_map, items, listed
from shared.dsl.model.texts import Text
from shared.dsl.source.nodes import Entry, Node, Position

_KEYS = ("next", "sink", "set", "set_ctx", "set_iter", "vars", "retry", "collect", "result", "call", "step", "args",
         "log")
_RULE = 'write - when: "{{ … }}" with then: {next: …, sink: …, set: …}'


class Case(Struct, frozen=True, kw_only=True):
    """One rule. `when` None is `else`. `retry` is the block of FS §8.1 or FX §7.1. `asks`: its condition reads how the
    call ended by its answer, as `response.error` and, on an event, `response.status_code`."""

    position: Position
    when: Any
    set_ctx: dict[str, Node]
    set_iter: dict[str, Node]
    sinks: list[Node]
    next: Node | None = None
    retry: Node | None = None
    collect: Node | None = None
    answer: Node | None = None
    call: Node | None = None
    asks: bool = False

    @property
    def acts(self) -> bool:
        """Does something on the worker, beside trying again."""
        return bool(self.set_ctx or self.set_iter or self.sinks or self.answer) or (
            self.collect is not None and self.retry is None)

    @property
    def sends(self) -> bool:
        """Sends a token beside the one that goes on, and does not say where that goes."""
        return self.call is not None and self.next is None

    @property
    def leads(self) -> bool:
        return self.call is not None or self.next is not None

    @property
    def enters(self) -> bool:
        return isinstance(self.when, str) and is_enter(self.when)

    @property
    def errors(self) -> bool:
        return isinstance(self.when, str) and asks_for_errors(self.when)


def read_case(env: Env, node: Node) -> list[Case]:
    if not is_list(node):
        env.error(node, "DSL203", "case must be a list of rules", _RULE)
        return []
    found = [case for case in (_rule(env, each) for each in listed(node)) if case is not None]
    for case in found:
        if case.enters and (case.next is not None or case.sinks or case.retry is not None):
            env.error(case.position, "DSL301", "on step.enter a rule can only set",
                      "route and store on step.exit, or in the step before")
    return found


def _rule(env: Env, node: Node) -> Case | None:
    fallback = get(node, "else")
    when, then = get(node, "when"), get(node, "then")
    if fallback is not None and when is None:
        then = get(fallback, "then") or then
    if then is None or (when is None and fallback is None):
        env.error(node, "DSL501", "the rule needs when and then", _RULE)
        return None
    actions = _merged(env, then)
    if actions is None:
        return None
    if get(actions, "next") is None and get(actions, "step") is not None:
        pair = {key: get(actions, key) for key in ("step", "args") if get(actions, key) is not None}
        at = actions.position
        actions = Node(at, {**actions.value, "next": Entry(at, build(at, pair))})
    to_ctx, to_iter = patches(get(actions, "set"))
    to_ctx |= dict(items(get(actions, "set_ctx"))) | dict(items(get(actions, "vars")))
    to_iter |= dict(items(get(actions, "set_iter")))
    return Case(
        position=node.position, when=when.value if when is not None else None, set_ctx=to_ctx, set_iter=to_iter,
        sinks=_stored(actions), next=get(actions, "next"), retry=get(actions, "retry") or _again(env, actions),
        collect=get(actions, "collect"), answer=_answer(env, actions), call=_called(actions),
        asks=env.edition > 3 and when is not None and isinstance(when.value, str) and _asks_how(when.value),
    )


def _asks_how(when: str) -> bool:
    if any(attributes_read(when, name) & {"error", "status"} for name in ("this", "output", "outcome")):
        return True
    if any("error" in attributes_read(when, name) for name in ("response", "event")):
        return True
    return "event" in free_names(when) and reads_status(when)


def reads_status(when: str) -> bool:
    return any("status_code" in attributes_read(when, name) for name in ("response", "this"))


def _stored(actions: Node) -> list[Node]:
    """The sinks of a rule; `log` is one whose task only records."""
    sink, log = get(actions, "sink"), get(actions, "log")
    found = (listed(sink) if is_list(sink) else [sink]) if sink is not None else []
    return found + ([build(log.position, {"tool": "noop", "args": {"log": log}})] if log is not None else [])


def _merged(env: Env, then: Node) -> Node | None:
    """`then` as a mapping; a list of one-key mappings means the same."""
    entries: dict[str, Entry] = {}
    for each in listed(then) if is_list(then) else [then]:
        if not is_map(each):
            env.error(each, "DSL501", "then must be a mapping", _RULE)
            return None
        entries |= each.value
    for key, entry in entries.items():
        if key not in _KEYS:
            env.error(entry.key, "DSL201", f"unknown key {key!r} in then of a case rule",
                      "known here: next, sink, set, retry, collect")
    return Node(then.position, {key: entry for key, entry in entries.items() if key in _KEYS})


def _again(env: Env, actions: Node) -> Node | None:
    """`call: {params: …}` repeats the step's own call with another input."""
    call = get(actions, "call")
    if call is None or get(call, "step") is not None:
        return None
    if not is_map(call):
        env.error(call, "DSL203", "call is a mapping", "write call: {step: …, args: {…}}, or call: {params: {…}}")
        return None
    return build(call.position, {"next_call": call})


def _called(actions: Node) -> Node | None:
    """`call: {step, args}` sends a token to a step, beside the one that continues."""
    call = get(actions, "call")
    return call if get(call, "step") is not None else None


def with_calls(env: Env, cases: list[Case], rest: Node | None) -> list[Case]:
    """The rules, with a step that one calls as one more place it leads to. One that leads nowhere else leaves that to
    the rule of the other event, and to the step's own `next`; before the fourth edition it was always the latter."""
    found = []
    for case in cases:
        if case.call is None:
            found.append(case)
            continue
        onward = case.next if case.next is not None else rest
        if onward is not None and is_router(onward):
            env.error(case.call, "DSL301", "beside call a rule needs to say where it leads",
                      "add next: [{step: …}] to the rule")
            onward = None
        if env.edition > 3 and case.next is None and case.when is not None:
            found.append(case)
            continue
        where = [] if onward is None else listed(onward) if is_list(onward) else [onward]
        found.append(replace(case, next=Node(case.call.position, [case.call, *where])))
    return found


def _answer(env: Env, actions: Node) -> Node | None:
    """`result: {from: …}`: what the step's result is; the response itself needs no words."""
    result = get(actions, "result")
    if result is None:
        return None
    given = get(result, "from")
    if given is None or not isinstance(given.value, str) or len(result.value) > 1:
        env.error(result, "DSL204", "result of a case rule is {from: <name>}", "write result: {from: response}")
        return None
    return None if given.value.strip("{ }") in ("response", "this") else given


def warn_of_codes(env: Env, node: Node, cases: list[Case], kind: str) -> None:
    """`error.status` is of http and `error.code` of SQL: read of anything else they are never there."""
    texts = [(build(case.position, case.when), case.when) for case in cases if isinstance(case.when, str)]
    retry = get(node, "retry")
    texts += [(when, when.value) for each in [retry, *listed(retry)] for name in ("when", "retry_when", "stop_when")
              if (when := get(each, name)) is not None and isinstance(when.value, str)]
    if kind in ("http", "postgres") or kind not in env.kinds:
        return
    for at, text in texts:
        for name in sorted(attributes_read(text, "error") & {"status", "status_code", "code"}):
            env.warn(at, "DSL917", f"error.{name} is never there: a task of kind {kind} fails without it",
                     "read error.kind or error.message, or error.exit_code of a shell")


def arcs(env: Env, cases: list[Case], rest: Node | None, step: str, names: Names, *,
         loop: bool, decided: str = "") -> tuple[list[Node], list[Node]]:
    """The arcs of a step with a `case`, and the steps generated for rules that lead to several. `decided` is the key
    of ctx with the number of the rule that matched, if the worker keeps it."""
    found: list[Node] = []
    steps: list[Node] = []
    before: list[str] = []  # rules that matched without leading anywhere

    def add(where: list[Target], when: Any, label: str, what: str) -> None:
        if where:
            target, generated = fan_out(env, where, label, what)
            found.append(arc(target, when))
            steps.extend([generated] if generated is not None else [])

    for index, case in enumerate(cases):
        when = condition(case.when, names) if case.when is not None else "{{ event.error is none }}"
        if case.next is not None:
            test = _decided(when, case, decided, index + 1) if decided else _guarded(when, before)
            test = Text(test, written_of(case.when)) if isinstance(case.when, str) else test
            add(targets(env, case.next, names), build(case.position, test), f"{step}_case_{index + 1}",
                f"rule {index + 1} of the case of step {step}")
        elif case.retry is None and not loop and not case.enters:
            before += [text for text in [negated(when)] if text is not None]
    if rest is not None:
        fallback(env, rest, found, lambda where: add(where, None, f"{step}_next", f"the next of step {step}"), names)
    return found, steps


def _decided(when: Any, case: Case, at: str, number: int) -> Any:
    """The worker has said which rule matched a success; a failure is looked at here."""
    inner = negated(when)
    if not case.errors or inner is None:
        return "{{ event.error is none and ctx." + at + " == " + str(number) + " }}"
    return "{{ ctx." + f"{at} == {number} if event.error is none else {inner.removeprefix('not ')}" + " }}"


def _guarded(when: Any, before: list[str]) -> Any:
    inner = negated(when)
    if not before or inner is None:
        return when
    return "{{ " + " and ".join([*before, inner.removeprefix("not ")]) + " }}"


def fallback(env: Env, rest: Node, found: list[Node], add: Any, names: Names) -> None:
    if not is_router(rest):
        add(targets(env, rest, names))
        return
    mode = get(rest, "spec", "mode")
    if mode is not None and mode.value == "inclusive":
        env.error(mode, "DSL301", "beside case, next cannot be inclusive", "write next: [{step: …}, {step: …}]")
        return
    found.extend(listed(get(rest, "arcs")))

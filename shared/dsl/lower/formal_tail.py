"""A formal step taken apart, and what came behind its main task in the first two editions of the language: setting, the
case's branches, sinks, the end. That of today is in `formal/tail.py`."""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.lower.build import directive, noop, otherwise, renamed_patch, rule, sink_task
from shared.dsl.lower.case import Case
from shared.dsl.lower.name_meanings import after_task, condition, key, unwrapped, with_args, with_failures
from shared.dsl.lower.names import Names, expression, rewrite
from shared.dsl.lower.nodes import Env, build, get, listed, text_of
from shared.dsl.lower.retry import Retry, gather
from shared.dsl.source.nodes import Node

_CASE = ("case", "enter", "exit")  # the tasks that ask the rules of a case, by the events of the step


_OF_THE_CALL = ("args", "call")  # without them there is no call


class Parts(Struct, kw_only=True):
    """A formal step taken apart. `errors`: a rule of its case does something about errors. `at_the_end` are the `vars`
    of a step with a loop; `meta` is what the main task keeps in `iter` for those that read `this.meta`. `answered` is
    where it keeps what a failed call answered, for the rules that read it: in `iter`, and for arcs in `ctx`. `around`
    are the generated tasks whose failure is none of the call."""

    env: Env
    step: str
    node: Node
    tasks: list[Node]
    args: dict[str, str]
    cases: list[Case]
    sinks: list[Node]
    set_ctx: dict[str, Node]
    set_iter: dict[str, Node]
    retry: Retry
    main: str
    errors: bool = False
    at_the_end: dict[str, Node] = {}
    meta: dict[str, str] = {}
    answered: frozenset[Literal["iter", "ctx"]] = frozenset()
    around: list[str] = []

    @property
    def kind(self) -> str:
        return self.retry.kind

    @property
    def looped(self) -> bool:
        return get(self.node, "loop") is not None

    @property
    def retried(self) -> bool:
        """Whether rules ask if the call is made again."""
        return get(self.node, "retry") is not None or any(case.retry is not None for case in self.cases)

    @property
    def policies(self) -> list[Node]:
        """Those of a `retry` that is a list (FX §6)."""
        return listed(get(self.node, "retry"))

    @property
    def decided(self) -> str:
        """The key of ctx that tells arcs which rule matched, when what a rule does can change what rules read.
        In a loop rules match once per iteration, and arcs once at its end."""
        cases = [case for case in self.cases if not case.enters]
        changing = any(case.set_ctx or case.answer for case in cases) or bool(collects(self))
        leading = any(case.next is not None for case in cases)
        return key(self.step, "case") if changing and leading and not self.looped else ""

    def label(self, what: str, meaning: str) -> str:
        label = self.env.label(f"{self.step}_{what}", self.node.position, f"{meaning} of step {self.step}")
        if what not in _OF_THE_CALL:
            self.around.append(label)
        if what in _CASE:
            self.env.mark(label, "case")
        return label

    def after(self, *, errors: bool = False, view: str = "_prev", page: bool = False) -> Names:
        """The names behind the main task. The `result` of a step that collects is the whole, as later steps see it;
        with `page` it is that of the last call."""
        names = unwrapped(after_task(self.step, self.kind, errors=errors, view=view), self.env.edition)
        kept = f"iter.{key(self.step, 'answered')}" if "iter" in self.answered else ""
        names = with_failures(names, self.env.edition, view, kept)
        into = collects(self) if self.env.edition > 3 and not page and repeats(self) else ""
        return with_args(_of_all_pages(names, self.step, into) if into else names, self.args)


def _of_all_pages(names: Names, step: str, into: str) -> Names:
    ok = names.ok
    whole = f"iter.{into}" if ok == "true" else f"(iter.{into} if {ok})"
    result = whole if ok == "true" else f"(iter.{into} if {ok} else {names.plain['result']})"
    own = {step: whole} if step.isidentifier() else {}
    dotted = {("event", "result"): whole, (step, into): whole, (step, "data"): whole, (step, "result"): whole}
    return replace(names, plain={**names.plain, **own, "result": result}, dotted={**names.dotted, **dotted},
                   tested={**names.tested, "result": whole} if names.tested else names.tested)


def behind(parts: Parts) -> tuple[list[Node], dict[str, str]]:
    """All tasks behind the main one, and the labels that others jump to."""
    position = parts.node.position
    acting = bool(parts.decided) or any(case.acts and not case.enters for case in parts.cases)
    sinks = [*parts.sinks, *(sink for each in listed(get(parts.node, "retry"))
                             if (sink := get(each, "then", "sink")) is not None)]
    hub = parts.label("vars", "what is set at the end") if parts.set_ctx or parts.set_iter else ""
    case = parts.label("case", "the case") if acting else ""
    done = parts.label("done", "the end") if acting or sinks or repeats(parts) else ""
    keep = parts.label("keep", "the way to the sink") if sinks and (acting or len(parts.tasks) > 1) else ""
    keeper = hub or case or keep or parts.main
    stores = _stores(parts, sinks, keeper, done)
    past = keep or (text_of(get(stores[0], "name")) if stores else done)
    found: list[Node] = []
    if hub:
        names = parts.after()
        found.append(noop(position, hub, [otherwise(directive(
            "continue", set_ctx=renamed_patch(parts.set_ctx, names), set_iter=renamed_patch(parts.set_iter, names),
            result="_prev"))]))
    if case:
        found += _case_tasks(parts, case, past, done)
    if keep:
        kept = keeper if keeper != keep else "_prev"
        found.append(noop(position, keep, [otherwise(directive("continue", result=kept))]))
    found += stores
    if done:
        found.append(ending(parts, done, keeper))
    return found, {"hub": text_of(get(found[0], "name")) if found else "", "case": case}


def repeats(parts: Parts) -> bool:
    """Whether the call is made again with another input, or responses are collected."""
    blocks = [get(each, "then") for each in listed(get(parts.node, "retry"))] + [case.retry for case in parts.cases]
    keys = ("next_call", "params", "collect", "sink")
    return any(get(block, name) is not None for block in blocks for name in keys) or any(
        case.collect is not None and case.retry is not None for case in parts.cases)


def _stores(parts: Parts, sinks: list[Node], keeper: str, done: str) -> list[Node]:
    """The sinks of the step and those of its retry policies, one after the other."""
    labels = [parts.label("sink", "a sink") for _ in sinks]
    found: list[Node] = []
    on = done
    for index in reversed(range(len(sinks))):
        names = parts.after(view=keeper if index else "_prev")
        if index >= len(parts.sinks):
            names = Names({**names.plain, "page": names.plain["response"]}, names.dotted, names.ok, names.failed)
        found = sink_task(parts.env, sinks[index], labels[index], names, directive("jump", to=on)) + found
        on = text_of(get(found[0], "name")) if found else done
    return found


def ending(parts: Parts, label: str, keeper: str) -> Node:
    into = collects(parts) if repeats(parts) else ""
    answer = "{{ iter." + into + " }}" if into else keeper
    shared = {into: answer} if into and not parts.looped else {}
    rules = [otherwise(directive("break", result=answer, set_ctx=shared))]
    given = key(parts.step, "answer")
    if any(answers(parts, case) for case in parts.cases):
        rules.insert(0, rule("{{ iter." + given + " is defined }}",
                             directive("break", result="{{ iter." + given + " }}", set_ctx=shared)))
    error = key(parts.step, "error")
    if parts.errors:
        rules.insert(0, rule("{{ iter." + error + " is defined }}",
                             directive("fail", error="{{ iter." + error + " }}")))
    return noop(parts.node.position, label, rules)


def answers_with(case: Case) -> str:
    return expression(text_of(case.answer)) or text_of(case.answer)


def patches(parts: Parts, case: Case, names: Names) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a rule of a case writes to `iter` and to `ctx`: its own, what it collects, and what it answers with."""
    to_iter: dict[str, Any] = renamed_patch(case.set_iter, names)
    to_ctx: dict[str, Any] = renamed_patch(case.set_ctx, names)
    if case.collect is not None and case.retry is None:
        (to_iter if repeats(parts) else to_ctx).update(
            gather(parts.env, parts.retry, case.collect, _at_hand(parts, names), once=not repeats(parts)))
    if answers(parts, case):
        to_iter[key(parts.step, "answer")] = rewrite("{{ " + answers_with(case) + " }}", names)
    return to_iter, to_ctx


def _at_hand(parts: Parts, names: Names) -> Names:
    """What is collected is the response of the call, not what was collected before."""
    return names if parts.env.edition < 4 else parts.after(errors=names.ok != "true", page=True)


def answers(parts: Parts, case: Case) -> bool:
    """Whether a rule gives the step another result; what is collected is the result anyway."""
    return case.answer is not None and not case.enters and answers_with(case).rpartition(".")[2] != collects(parts)


def collects(parts: Parts) -> str:
    """The name that responses are collected into, if any."""
    blocks = [get(each, "then", "collect") for each in listed(get(parts.node, "retry"))]
    blocks += [case.collect or get(case.retry, "collect") for case in parts.cases]
    return next((text_of(get(each, "into")) for each in blocks if each is not None), "")


def _case_tasks(parts: Parts, label: str, past: str, done: str) -> list[Node]:
    """The rules that do something, in order, and a branch for each that stores."""
    names = parts.after(errors=parts.errors)
    last = max(index for index, case in enumerate(parts.cases)
               if (case.acts or (parts.decided and case.next is not None)) and not case.enters)
    rules: list[dict[str, Any]] = []
    branches: list[Node] = []
    for index, case in enumerate(parts.cases[:last + 1]):
        if case.enters or (case.retry is not None and not case.acts):
            continue
        when = condition(case.when, names) if case.when is not None else "{{ " + names.ok + " }}"
        to = done if case.errors and parts.errors else past
        branch = _branch(parts, case, index, names, to)
        to_iter, to_ctx = patches(parts, case, names)
        to_ctx |= {parts.decided: index + 1} if parts.decided else {}
        then = directive("jump", to=text_of(get(branch[0], "name")) if branch else to, result="_prev",
                         set_ctx=to_ctx, set_iter=to_iter)
        rules.append(rule(build(case.position, when), then))
        branches += branch
    if parts.errors and past != done:
        rules.append(rule("{{ iter." + key(parts.step, "error") + " is defined }}", directive("jump", to=done)))
    none = {parts.decided: 0} if parts.decided else {}
    rules.append(otherwise(directive("jump", to=past, result="_prev", set_ctx=none)))
    return [noop(parts.node.position, label, rules), *branches]


def _branch(parts: Parts, case: Case, index: int, names: Names, to: str) -> list[Node]:
    labels = [parts.label(f"case_{index + 1}_sink", f"a sink of rule {index + 1}") for _ in case.sinks]
    found: list[Node] = []
    for sink, label in zip(reversed(case.sinks), reversed(labels), strict=True):
        on = text_of(get(found[0], "name")) if found else to
        found = sink_task(parts.env, sink, label, names, directive("jump", to=on)) + found
    return found

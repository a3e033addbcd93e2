"""Programs of today's playbooks that read more than the task hands over: a `main` that names it, or `{{ … }}` in
the code. Both become `args`, so that the canonical task says all its program sees."""

import ast
import io
import itertools
import re
import tokenize
import warnings
from typing import Any, NamedTuple

from shared.dsl.lower.bounds import MAX_IN_PROGRAM, MAX_PROGRAM
from shared.dsl.lower.context import CONTEXT, looked_up
from shared.dsl.lower.names import expression
from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, items, listed, replaced, text_of
from shared.dsl.source.nodes import Node

ALL_ARGS = ("input_data", "args")  # the program's names for all its args; the second from the third edition on


def lower_program(env: Env, task: Node) -> Node:
    """`main` gets by its name what no arg gives it, as a template would find it: the iterator's element, the arc's
    arguments, an earlier step's result."""
    args, code = get(task, "args"), get(task, "code")
    if text_of(get(task, "kind")) != "python" or code is None or (args is not None and not is_map(args)):
        return task
    given, text = dict(items(args)), text_of(code)
    if len(text) > MAX_PROGRAM:
        env.error(code, "DSL801", f"a program of {len(text)} characters, over the limit of {MAX_PROGRAM}",
                  "split it over tasks, or keep it in a module of libs")
        return task
    values, text = _values(env, code, text, set(given))
    found: dict[str, Any] = dict(values)
    all_args = ALL_ARGS if env.edition > 2 else ALL_ARGS[:1]
    found |= {name: value for name, value in _names(text).items() if name not in (*given, *all_args)}
    if not found:
        return task
    merged = {**{name: build(task.position, value) for name, value in found.items()}, **given}
    new = code if text == code.value else Node(code.position, text, code.style)
    return changed(task, {"args": build(task.position, merged), "code": new})


_ALL = re.compile(r"\binput_data\b")


def hand_arguments(env: Env, steps: list[Node]) -> list[Node]:
    """A program that reads all its args as one also reads those that arcs bring to its step (DSL2 §8.3), and an arg
    without a value is a place for one of them."""
    if env.edition < 3:
        return steps
    brought: dict[str, list[set[str]]] = {}
    for step in filter(is_map, steps):
        for arc in listed(get(step, "next", "arcs")):
            brought.setdefault(text_of(get(arc, "step")), []).append({name for name, _ in items(get(arc, "args"))})
    return [_given(each, brought.get(text_of(get(each, "step")), [])) if is_map(each) else each for each in steps]


def _given(step: Node, brought: list[set[str]]) -> Node:
    tool, names = get(step, "tool"), sorted({name for each in brought for name in each if name.isidentifier()})
    if tool is None or not names:
        return step
    texts = {name: f"args.{name}" if all(name in each for each in brought) else f"args.{name} | default(none)"
             for name in names}
    if is_map(tool):
        return changed(step, {"tool": _reads_all(tool, texts)})
    if not is_list(tool):
        return step
    tasks = [_reads_all(task, texts) if is_map(task) else task for task in listed(tool)]
    return changed(step, {"tool": replaced(tool, tasks)})


def _reads_all(task: Node, texts: dict[str, str]) -> Node:
    args = get(task, "args")
    if text_of(get(task, "kind")) != "python" or (args is not None and not is_map(args)):
        return task
    own = {name: value for name, value in items(args) if value.value is not None or name not in texts}
    wanted = texts.keys() if _ALL.search(text_of(get(task, "code"))) else {name for name, _ in items(args)} - own.keys()
    given = {name: build(task.position, "{{ " + text + " }}") for name, text in texts.items()
             if name in wanted and name not in own}
    return changed(task, {"args": build(task.position, {**given, **own})}) if given else task


def hand_wholes(env: Env, steps: list[Node]) -> list[Node]:
    """The arguments of a step are kept in `iter`, as plain values. A program that is given a whole loop or table so
    reads the step itself, which tells it more than the value."""
    wholes = {text_of(get(each, "step")) for each in steps if is_map(each) and _is_more(env, each)}
    if not wholes or env.edition < 3:
        return steps
    return [_handed(each, wholes) if is_map(each) else each for each in steps]


def _is_more(env: Env, step: Node) -> bool:
    """It has a loop, or runs SQL."""
    tool = get(step, "tool")
    kinds = {text_of(get(each, "kind")) for each in ([tool] if is_map(tool) else listed(tool))}
    return get(step, "loop") is not None or any("results" in env.kinds[kind].keys for kind in kinds & env.kinds.keys())


def _handed(step: Node, wholes: set[str]) -> Node:
    tool = get(step, "tool")
    if tool is None or not is_list(tool) or len(tool.value) < 2:
        return step
    bound = {f"{{{{ iter.{name} }}}}": value for name, value in items(_kept(tool.value[0])) if _is_whole(value, wholes)}
    if not bound:
        return step
    tasks = [_reading(task, bound) if text_of(get(task, "kind")) == "python" else task for task in tool.value]
    return changed(step, {"tool": replaced(tool, tasks)})


def _kept(first: Node) -> Node | None:
    """What the first task keeps in `iter`, if that is all it does."""
    rules = get(first, "spec", "policy", "rules")
    if text_of(get(first, "kind")) != "noop" or rules is None or not is_list(rules) or len(rules.value) != 1:
        return None
    return get(rules.value[0], "else", "then", "set_iter")


def _is_whole(value: Node, wholes: set[str]) -> bool:
    """The step's name alone, or with something in its place where it did not run."""
    inner = expression(text_of(value)) or ""
    name, _, rest = inner.partition("|")
    return name.strip() in wholes and (not rest or rest.strip().startswith(("default(", "d(")))


def _reading(task: Node, bound: dict[str, Node]) -> Node:
    args = get(task, "args")
    if args is None or not is_map(args):
        return task
    put = {name: bound[text_of(value)] for name, value in items(args) if text_of(value) in bound}
    return changed(task, {"args": changed(args, put)}) if put else task


def asks_for(name: str, task: Node) -> bool:
    """Whether the `main` of a task's program cannot be called without what no arg gives."""
    args, code = get(task, "args"), text_of(get(task, "code"))
    if text_of(get(task, "kind")) != "python" or len(code) > MAX_PROGRAM or (args is not None and not is_map(args)):
        return False
    return name in code and get(args, name) is None and name in _names(code)


class _Spot(NamedTuple):
    line: int
    start: int
    end: int


def _values(env: Env, code: Node, text: str, taken: set[str]) -> tuple[dict[str, str], str]:
    """Templates in the open become variables; in strings and comments they are what they look like."""
    if "{{" not in text:
        return {}, text
    lines, found = text.splitlines(keepends=True), dict[str, str]()
    spots = _spots(text)
    if len(spots) > MAX_IN_PROGRAM:
        env.error(code, "DSL801", f"{len(spots)} values in a program, over the limit of {MAX_IN_PROGRAM}",
                  "hand them over as args, some of them in one")
        return {}, text
    for spot in reversed(spots):
        template = lines[spot.line][spot.start : spot.end]
        name = next((name for name, old in found.items() if old == template), "") or _fresh(text, {*taken, *found})
        found[name] = template
        lines[spot.line] = lines[spot.line][: spot.start] + name + lines[spot.line][spot.end :]
    if found:
        env.warn(code, "DSL918", "a program is taken as written: its {{ … }} are handed over as variables",
                 "write args: {name: \"{{ … }}\"}, and name in the code")
    return found, "".join(lines)


def _fresh(text: str, taken: set[str]) -> str:
    names = (f"value_{number}" for number in itertools.count(1))
    return next(name for name in names if name not in taken and name not in text)


def _spots(text: str) -> list[_Spot]:
    """Where `{{ … }}` is outside a string: as Python it is a set of sets, which cannot be."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    found, openings = list[_Spot](), list[tuple[int, int]]()
    closed: tuple[tuple[int, int], tuple[int, int]] | None = None  # where the last braces opened and ended
    for token in tokens:
        if token.type != tokenize.OP:
            continue
        if token.string == "{":
            openings.append(token.start)
        elif token.string == "}" and openings:
            opened = openings.pop()
            (line, start), inner = opened, (opened[0], opened[1] + 1)
            if closed == (inner, token.start) and token.end[0] == line:
                found.append(_Spot(line - 1, start, token.end[1]))
            closed = (opened, token.end)
    return found


def _names(code: str) -> dict[str, Any]:
    """What the program sees by name, and the templates that give it."""
    if "def main(" not in code and CONTEXT not in code:
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the author's program, which is not run here
            tree = ast.parse(code)
        found: dict[str, Any] = {name: "{{ " + name + " }}" for name in _parameters(tree)}
        context = looked_up(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return found if context is None else {**found, CONTEXT: context}


def _parameters(tree: ast.Module) -> list[str]:
    """What `main` cannot be called without."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "main":
            positions = [*node.args.posonlyargs, *node.args.args]
            keywords = [each for each, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                        if value is None]
            return [each.arg for each in (*positions[: len(positions) - len(node.args.defaults)], *keywords)]
    return []

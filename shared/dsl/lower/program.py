"""Programs of today's playbooks that read more than the task hands over: a `main` that names it, or `{{ … }}` in
the code. Both become `args`, so that the canonical task says all its program sees."""

import ast
import io
import itertools
import tokenize
import warnings
from typing import Any, NamedTuple

from shared.dsl.lower.bounds import MAX_IN_PROGRAM, MAX_PROGRAM
from shared.dsl.lower.context import CONTEXT, looked_up
from shared.dsl.lower.nodes import Env, build, changed, get, is_map, items, text_of
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

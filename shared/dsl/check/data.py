"""Checks of what tasks do with data: SQL texts and shell programs, writes to `ctx` from parallel
iterations, and secrets that would come back in a result."""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from shared.dsl.check.plan_paths import Sites
from shared.dsl.lower.bounds import MAX_PROGRAM
from shared.dsl.model.plan import Plan, Step, Task
from shared.dsl.model.tool_spec import KeySpec, ToolSpec
from shared.dsl.read.reader import Reader, short
from shared.dsl.source.nodes import Path
from shared.dsl.templates.needs import names_used
from shared.dsl.templates.shell import misplaced
from shared.dsl.templates.sql import survey

_ANSWERS = re.compile(r"\s*(select|values|table|with)\b|\breturning\b", re.IGNORECASE)


def check_data(reader: Reader, plan: Plan, sites: Sites, kinds: Mapping[str, ToolSpec]) -> None:
    for step in plan.steps.values():
        for index, task in enumerate(step.tasks):
            path = sites.task(step.name, index)
            for key, text in _sql(task, kinds):
                _check_sql(reader, text, (*path, *key))
            for key, text in _texts(task.config, kinds[task.kind].keys, "shell"):
                _check_shell(reader, text, (*path, *key))
            _check_echo(reader, task, path, kinds)
        if step.loop is not None and step.loop.cursor is not None:
            at = (*sites.step(step.name), "loop", "cursor", "claim")
            _check_sql(reader, step.loop.cursor.claim.config["command"], at)
        if step.loop is not None and step.loop.mode == "parallel":
            _check_writes(reader, step, sites)


def _sql(task: Task, kinds: Mapping[str, ToolSpec]) -> Iterator[tuple[Path, str]]:
    return _texts(task.config, kinds[task.kind].keys, "sql")


def _texts(config: Mapping[str, Any], keys: Mapping[str, KeySpec], flag: str) -> Iterator[tuple[Path, str]]:
    """The texts of the keys that are SQL, or programs of a shell, alone or in a list."""
    for key, spec in keys.items():
        value = config.get(key)
        if getattr(spec, flag):
            texts = value if isinstance(value, list) else [value]
            paths: list[Path] = [(key, index) for index in range(len(texts))] if texts is value else [(key,)]
            yield from ((at, text) for at, text in zip(paths, texts, strict=True) if isinstance(text, str))
        elif spec.fields and isinstance(value, dict):
            yield from (((key, *at), text) for at, text in _texts(value, spec.fields, flag))


def _check_sql(reader: Reader, text: str, path: Path) -> None:
    for found in survey(text):
        reader.at(reader.document.text_line(path, found.line), found.code, found.message, found.fix,
                  warning=found.code != "DSL604")


def _check_shell(reader: Reader, text: str, path: Path) -> None:
    wrong = misplaced(text)
    if wrong is not None:
        what, _, fix = wrong[0].partition(": ")
        reader.at(reader.document.text_line(path, wrong[1]), "DSL605", what, fix)


def _check_writes(reader: Reader, step: Step, sites: Sites) -> None:
    """A second plain write to a key fails its iteration (`ctx_conflict`)."""
    assert step.loop is not None
    if step.loop.cursor is None and isinstance(step.loop.items, list) and len(step.loop.items) <= 1:
        return
    for index, task in enumerate(step.tasks):
        for number, rule in enumerate(task.rules or ()):
            for key, value in rule.then.set_ctx.items():
                if _is_reducer(value):
                    continue
                path = (*sites.then(step.name, index, number), "set_ctx", key)
                reader.key(path, "DSL912", f"iterations that run in parallel all write ctx.{key[:60]}; "
                           "only the first write stands", f"use a reducer, such as {key[:60]}: {{$append: …}}",
                           warning=True)


def _is_reducer(value: Any) -> bool:
    return isinstance(value, dict) and any(name.startswith("$") for name in value)


def _check_echo(reader: Reader, task: Task, path: Path, kinds: Mapping[str, ToolSpec]) -> None:
    """What is known to come back: a value a query selects, a variable the program gives as its result."""
    fix = "let the tool use the value, and answer with something else"
    for key, text in _sql(task, kinds):
        if "keychain" in text and _ANSWERS.search(text) and _selects_secret(text):
            reader.value((*path, *key), "DSL913", "the statement answers with a keychain value, which is blanked out",
                         fix, warning=True)
    args = task.config.get("args")
    code = next((task.config[key] for key, spec in kinds[task.kind].keys.items()
                 if not spec.template and isinstance(task.config.get(key), str)), "")
    secret = {name for name, value in args.items() if "keychain" in names_used(value).names} if isinstance(
        args, dict) else set()
    if not code or not secret:
        return
    for name in sorted(secret & _given_back(code)):
        reader.key((*path, "args", name), "DSL913",
                   f"the program answers with {short(name)}, a keychain value, which is blanked out", fix, warning=True)


def _selects_secret(text: str) -> bool:
    """Whether a keychain output is in the list of what is selected."""
    lists = re.findall(r"(?is)\b(?:select|returning|values)\b(.*?)(?=\bfrom\b|\bwhere\b|;|\Z)", text)
    into = re.search(r"(?i)\binsert\s+into\b", text) and not re.search(r"(?i)\breturning\b", text)
    return not into and any("keychain" in names_used(part).names for part in lists)


def _given_back(code: str) -> set[str]:
    """The variables that are part of what the program assigns to `result` or returns, as they are."""
    if len(code) > MAX_PROGRAM:
        return set()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the author's program, which is not run here
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) or (isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "result" for target in node.targets)):
            found |= _parts(node.value)
    return found


def _parts(value: ast.expr | None) -> set[str]:
    match value:
        case ast.Name(id=name):
            return {name}
        case ast.Dict(values=values):
            return set().union(*map(_parts, values))
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return set().union(*map(_parts, items))
        case ast.JoinedStr(values=pieces):
            return set().union(*(_parts(piece.value) for piece in pieces if isinstance(piece, ast.FormattedValue)))
    return set()

"""Whether literals can ever work: what a tool says of its keys, and whether programs can be read by Python. A worker
may run another version of it than this one, and an execution that has begun goes by what its worker says: only authors
are told (`compile_playbook(programs=True)`)."""

import ast
import warnings
from collections.abc import Mapping
from typing import Any

from shared.dsl.check.plan_paths import Sites
from shared.dsl.model.plan import Plan
from shared.dsl.model.tool_spec import KeySpec, ToolSpec
from shared.dsl.read.reader import Reader, short
from shared.dsl.read.template_fields import strings
from shared.dsl.source.nodes import Path, Position
from shared.dsl.templates.evaluate import is_template


def check_programs(reader: Reader, plan: Plan, sites: Sites, kinds: Mapping[str, ToolSpec]) -> None:
    """Also of a document in which other things are wrong."""
    for step in plan.steps.values():
        for index, task in enumerate(step.tasks):
            keys = kinds[task.kind].keys if task.kind in kinds else {}
            for key, value in task.config.items():
                path = sites.own(step.name, index, key, value) if key in keys else None
                if path is not None:
                    _literal(reader, value, keys[key], path)
                    _program(reader, value, keys[key], path, step.name)


def _literal(reader: Reader, value: Any, spec: KeySpec, path: Path) -> None:
    """What has a template in it is known when it is rendered."""
    if spec.wrong is None or (spec.template and any(is_template(text) for text, _ in strings(value, ()))):
        return
    if why := spec.wrong(value):
        reader.value(path, "DSL204", why[:300], spec.doc[:200])


def _program(reader: Reader, code: Any, spec: KeySpec, path: Path, step: str) -> None:
    error = wrong(code) if spec.python and isinstance(code, str) else None
    if error is not None:
        what = f"the program of {short(step)} is not Python: {error.msg}"
        place = f"line {error.lineno} of it" if error.lineno else "it"
        reader.at(_position(reader, path, error), "DSL415", what, f"mend {place}")


def wrong(code: str) -> SyntaxError | None:
    """What Python says about it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are for who runs it
            ast.parse(code)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error) or "it is nested too deep")
    return None


def _position(reader: Reader, path: Path, error: SyntaxError) -> Position:
    """In a text of lines of its own, where the mistake is; else where the text begins."""
    node, lines = reader.document.node(path), reader.document.lines
    at = node.position.line + (error.lineno or 1)
    if node.style != "|" or not error.lineno or at > len(lines):
        return node.position
    first = next((line for line in lines[node.position.line:] if line.strip()), "")
    return Position(at, len(first) - len(first.lstrip(" ")) + max(error.offset or 1, 1))

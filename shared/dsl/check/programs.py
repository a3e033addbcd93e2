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
    for step in plan.steps.values():
        for index, task in enumerate(step.tasks):
            keys = kinds[task.kind].keys if task.kind in kinds else {}
            _literals(reader, task.config, keys, sites.task(step.name, index), sites)
            for key in (key for key, spec in keys.items() if spec.python):
                code, path = task.config.get(key), (*sites.task(step.name, index), key)
                error = wrong(code) if isinstance(code, str) and sites.has(path) else None
                if error is not None:
                    what = f"the program of {short(step.name)} is not Python: {error.msg}"
                    place = f"line {error.lineno} of it" if error.lineno else "it"
                    reader.at(_position(reader, path, error), "DSL415", what, f"mend {place}")


def _literals(reader: Reader, config: Mapping[str, Any], keys: Mapping[str, KeySpec], path: Path,
              sites: Sites) -> None:
    """What has a template in it is known when it is rendered."""
    for key, spec in keys.items():
        if spec.wrong is None or key not in config or not sites.has((*path, key)):
            continue
        value = config[key]
        templated = spec.template and any(is_template(text) for text, _ in strings(value, ()))
        if not templated and (why := spec.wrong(value)):
            reader.value((*path, key), "DSL204", why[:300], spec.doc[:200])


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

"""Helpers of tests stand once, and tests use what the product shows."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tests.support.paths import ROOT

TESTS = ROOT / "tests"
Function = ast.FunctionDef | ast.AsyncFunctionDef
Helper = Function | ast.ClassDef
IMPORT = re.compile(r"^ *from ((?:services|shared|tests)[\w.]*) import ([\w, ]+)$", re.MULTILINE)
OWN = ("self", "cls", "super")
PUBLIC = {"_replace", "_asdict", "_exit"}  # of named tuples and of os, in spite of their names
# Where a test reaches inside, and why nothing else would do.
INSIDE = {
    "chaos/driving/log.py": "an alternative constructor of the class itself",
    "contract/bus/test_wire.py": "the parser of the NATS client, which our connection stands in for",
    "contract/tools/test_python_left.py": "an answer to another call can only be put between a child and its pool",
    "integration/test_reconnect.py": "a mutant: what a reconnect did before it was right",
    "integration/test_reset_under_uvloop.py": "a socket has to close while its connection takes itself for open",
    "sim/mutants/promises.py": "mutants: a promise of a fold taken away",
    "support/inputs/bounds.py": "every cache there is, to compile as if for the first time",
    "support/kinds.py": "a kind that is registered for one test has to go again",
    "support/servers/snowflake.py": "the fake account has no other way to end a statement",
    "unit/answers/history/test_one_fence.py": "every reader of a lease, also one within a command",
    "unit/runtime/control/test_recovery.py": "a record must come at one moment within a load",
    "unit/services/scheduler/test_fairness.py": "that nothing is kept shows nowhere else",
    "unit/services/scheduler/test_queue.py": "what waits for its turn is not on the broker yet",
    "unit/services/scheduler/test_trigger_pace.py": "what a trigger has not looked at shows nowhere else",
    "unit/services/worker/test_holds.py": "a broker silent for a minute, without the minute",
}


def trees() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(TESTS.rglob("*.py")):
        yield _name(file), ast.parse(file.read_text(encoding="utf-8"))


def _name(file: Path) -> str:
    return str(file.relative_to(TESTS))


def meaning(helper: Helper) -> str:
    """What it takes and does, whatever it is called; empty for one that does nothing."""
    takes = [helper.args] if isinstance(helper, Function) else helper.bases
    body = [node for node in helper.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    return "".join(map(ast.dump, [*takes, *body])) if body else ""


def test_no_helper_is_defined_twice() -> None:
    found: dict[str, list[str]] = {}
    for file, tree in trees():
        for node in tree.body:
            if isinstance(node, Helper) and not node.name.startswith("test_") and (meant := meaning(node)):
                found.setdefault(meant, []).append(f"{file}:{node.lineno} {node.name}")
    assert [places for places in found.values() if len(places) > 1] == []


def is_inside(node: ast.AST) -> bool:
    """A private name of something else than itself."""
    if isinstance(node, ast.ImportFrom):
        return any(_is_private(alias.name) for alias in node.names)
    return isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node.value)


def _is_own(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):  # super()
        value = value.func
    return isinstance(value, ast.Name) and value.id in OWN


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PUBLIC


def test_tests_use_what_is_public() -> None:
    found = {file for file, tree in trees() if any(map(is_inside, ast.walk(tree)))}
    assert found == set(INSIDE)


def programs() -> Iterator[tuple[str, str, str]]:
    """Of every program in a text: its file, a module, and what it imports from there."""
    for file, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for module, names in IMPORT.findall(node.value):
                    for name in names.split(","):
                        yield file, module, name.strip()


def test_programs_in_texts_import_what_is_there() -> None:
    gone = [each for each in programs() if not hasattr(import_module(each[1]), each[2]) and not _is_module(*each[1:])]
    assert gone == []


def _is_module(package: str, name: str) -> bool:
    return find_spec(f"{package}.{name}") is not None

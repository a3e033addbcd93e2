"""A failure is made in one module, has the bytes that older logs have, and is read without trust."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared.events import failure
from shared.events.failure import CANCELLED, LIMIT, Failure, is_retryable, kind_of, message_of, shortened
from shared.events.outcome import failed
from tests.support.paths import ROOT

KINDS = {value for name, value in vars(failure).items() if name.isupper()}
HOME = "shared/events/failure.py"
# Mappings with a `kind` that look like a failure, and why each is none that the log has to know again.
OTHERS = {
    "shared/tools/gcs/client.py": "the server's own error, with another kind",
    "shared/tools/python/code.py": "the answer of the process that runs the code, of which the tool makes an outcome",
}
# Who gives a failure its kind outside of the tools, and the one that gives the kind of a tool.
MAKERS = {"failed", "_failed", "refuse", "Failure", "Unusable"}
OF_A_TOOL = {"shared/answers/replay/replay.py"}


# -- what it is ----------------------------------------------------------------------------


@pytest.mark.parametrize(("made", "stands"), [
    (Failure(LIMIT, "m"), '{"kind":"limit","message":"m"}'),
    (Failure(LIMIT, "m", retryable=False), '{"kind":"limit","message":"m","retryable":false}'),
    (Failure(LIMIT, "m", step="a"), '{"kind":"limit","message":"m","step":"a"}'),
    (Failure(LIMIT, "m", True, "a", {"x": 1}), '{"kind":"limit","message":"m","retryable":true,"step":"a","x":1}'),
    (Failure(LIMIT, "m", True, details={"message": "n"}), '{"kind":"limit","message":"n","retryable":true}'),
])
def test_what_is_not_said_does_not_stand_in_the_log(made: Failure, stands: str) -> None:
    assert msgspec.json.encode(made.error()).decode() == stands


def test_the_error_of_a_failed_call_always_says_whether_to_try_again() -> None:
    outcome = failed("http", "503", retryable=True, details={"code": "busy"}, http={"status": 503})
    assert outcome.error is not None
    assert list(outcome.error.items()) == [("kind", "http"), ("message", "503"), ("retryable", True), ("code", "busy")]
    assert failed("http", "404").error == {"kind": "http", "message": "404", "retryable": False}


def test_two_errors_of_one_failure_are_not_the_same_mapping() -> None:
    made = Failure(CANCELLED, "m", details={"x": 1})
    made.error()["x"] = 2
    assert made.error() == {"kind": CANCELLED, "message": "m", "x": 1}


# -- what is read ----------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "kind", "message", "retryable"), [
    (None, None, "otherwise", False),
    ({}, None, "otherwise", False),
    ({"kind": "limit", "message": "", "retryable": True}, "limit", "", True),
    ({"kind": ["a"], "message": {"b": 1}, "retryable": 0}, ["a"], "{'b': 1}", False),
    ({"kind": None, "message": None}, None, "None", False),
])
def test_an_authors_error_may_be_any_mapping(
    error: dict[str, Any] | None, kind: object, message: str, retryable: bool
) -> None:
    assert kind_of(error) == kind
    assert message_of(error, "otherwise") == message
    assert is_retryable(error) is retryable


def test_a_shortened_error_keeps_its_kind_and_the_beginning_of_its_message() -> None:
    assert list(shortened({"message": "abcdef", "x": 1, "kind": "own"}, 3).items()) == [
        ("kind", "own"), ("message", "abc")]
    assert shortened({}, 3) == {"kind": None, "message": ""}


# -- one place -------------------------------------------------------------------------------


def trees() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("shared", "services"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def literals(tree: ast.AST) -> Iterator[int]:
    """Lines of mappings that are written as a failure is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = {key.value: value for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            keys = {word.arg: word.value for word in node.keywords}
        else:
            continue
        kind = keys.get("kind")
        known = isinstance(kind, ast.Constant) and kind.value in KINDS
        if kind is not None and (known or keys.keys() & {"message", "retryable", "error"}):
            yield node.lineno


def spelled(tree: ast.AST) -> Iterator[int]:
    """Lines of failures whose kind is a text where it is given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = [*node.args, *(word.value for word in node.keywords if word.arg == "kind")]
            if called in MAKERS and any(_is_word(value) for value in given):
                yield node.lineno


def _is_word(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value.isidentifier()


def test_a_failure_is_made_in_one_module() -> None:
    found = {f"{file}:{line}" for file, tree in trees() for line in literals(tree) if file not in {HOME, *OTHERS}}
    assert found == set()


@pytest.mark.parametrize("file", OTHERS)
def test_what_only_looks_like_a_failure_is_still_there(file: str) -> None:
    assert list(literals(ast.parse((ROOT / file).read_text(encoding="utf-8"))))


def test_a_kind_of_the_engine_is_spelled_in_one_module() -> None:
    found = {
        f"{file}:{line}" for file, tree in trees() if file not in OF_A_TOOL and not _is_a_tool(file)
        for line in spelled(tree)
    }
    assert found == set()


def _is_a_tool(file: str) -> bool:
    path = Path(file)
    return path.is_relative_to("shared/tools") and not path.is_relative_to("shared/tools/base") and len(path.parts) > 3


@pytest.mark.parametrize("source", [
    'a = {"kind": "x", "message": m}', 'a = {"kind": kind, "retryable": False}', 'a = {"kind": "limit"}',
    'a = {**b, "kind": "timeout"}', 'a = dict(kind="x", message=m)',
])
def test_what_is_written_as_a_failure_is_found(source: str) -> None:
    assert list(literals(ast.parse(source))) == [1]


@pytest.mark.parametrize("source", ['a = {"kind": "noop", "name": n}', 'a = {"message": m}', 'a = dict(kind=1)'])
def test_another_mapping_is_no_failure(source: str) -> None:
    assert list(literals(ast.parse(source))) == []


@pytest.mark.parametrize("source", ['failed("limit", m)', 'turn.refuse("request", m)', 'Failure(kind="new")'])
def test_a_kind_that_is_spelled_is_found(source: str) -> None:
    assert list(spelled(ast.parse(source))) == [1]


def test_authors_can_look_up_every_kind_of_the_engine() -> None:
    page = (ROOT / "docs/dsl.md").read_text(encoding="utf-8")
    section = page.partition("### Failures\n")[2].partition("\n### ")[0]
    named = re.findall(r"^\| `(\w+)` \| .+ \|$", section, re.MULTILINE)
    assert sorted(named) == sorted(KINDS)

"""The mocks of a test: which call each answers, and how."""

from collections.abc import Mapping
from typing import Any, cast

from shared.dsl.model.plan import Plan
from shared.dsl.playtests.model import ANSWERS, MAX_COUNT, MAX_MOCKS, MOCK_KEYS, OUTCOME_KEYS, SELECTORS, Mock
from shared.dsl.playtests.parts import limited, read_time
from shared.dsl.playtests.playbooks import Books, is_step, task_of
from shared.dsl.read.reader import Reader, kind_of, short
from shared.dsl.read.template_fields import check_templates, read_condition
from shared.dsl.source.nodes import Path
from shared.dsl.templates.evaluate import is_template

_MOCKS = "write mocks: [{step: …, result: …}]"
_ONE = "write one of result: …, error: {kind: …, message: …} or outcome: {status: …}"


def read_mocks(reader: Reader, owner: Mapping[str, Any], path: Path, books: Books) -> tuple[Mock, ...]:
    if "mocks" not in owner:
        return ()
    at = (*path, "mocks")
    listed = limited(reader, reader.listing(owner["mocks"], at, _MOCKS), at, MAX_MOCKS)
    found: list[Mock] = []
    for index, item in enumerate(listed):
        mock = _mock(reader, item, (*at, index), books)
        if mock is not None:
            _reached(reader, mock, found, (*at, index))
            found.append(mock)
    return tuple(found)


def _mock(reader: Reader, item: Any, path: Path, books: Books) -> Mock | None:
    found = reader.mapping(item, path, "write - step: …, with result: …")
    if not isinstance(item, dict):
        return None
    reader.keys(found, path, MOCK_KEYS, {}, "a mock")
    says, value = _answer(reader, found, path)
    plan, playbook = books.main(), ""
    if "playbook" in found:
        plan, playbook = books.of(reader, found["playbook"], (*path, "playbook")), str(found["playbook"])
        if plan is not None and plan is books.main():
            playbook = ""
    step, task = _step_and_task(reader, found, path, plan)
    selectors = {key: _count(reader, found[key], key, path) for key in SELECTORS if key in found}
    when = read_condition(reader, found["when"], (*path, "when")) if "when" in found else None
    after = read_time(reader, found, "after", path)
    line = reader.document.node(path).position.line
    return Mock(step, task, cast(Any, says), value, playbook, when=when, after=after, line=line, **selectors)


def _step_and_task(reader: Reader, found: Mapping[str, Any], path: Path, plan: Plan | None) -> tuple[str, str]:
    if not reader.required(found, "step", path, "the mock", "add step: <name>"):
        return "", ""
    name = found["step"]
    if not is_step(reader, plan, name, (*path, "step")):
        return "", ""
    assert plan is not None
    task = task_of(reader, plan, name, found.get("task"), (*path, "task") if "task" in found else path)
    return name, task.name if task is not None else ""


def _count(reader: Reader, value: Any, key: str, path: Path) -> int:
    return reader.whole(value, (*path, key), 0 if key == "iteration" else 1, MAX_COUNT)


def _answer(reader: Reader, found: Mapping[str, Any], path: Path) -> tuple[str, Any]:
    given = [key for key in ANSWERS if key in found]
    if len(given) != 1:
        says = f"the mock has {' and '.join(given)}" if given else "the mock does not say what the task answers with"
        reader.key((*path, *given[1:2]), "DSL204" if given else "DSL202", says, _ONE)
        return "result", None
    key = given[0]
    value, at = found[key], (*path, key)
    check_templates(reader, value, at, secrets=False)
    if key == "error":
        _error(reader, value, at)
    elif key == "outcome":
        _outcome(reader, value, at)
    return key, value


def _error(reader: Reader, value: Any, path: Path) -> None:
    if isinstance(value, str):
        reader.text(value, path, "write error: what went wrong")
        return
    found = reader.mapping(value, path, "write error: {kind: connect, message: …, retryable: true}")
    for key in ("kind", "message"):
        if key in found:
            reader.text(found[key], (*path, key), f"write {key}: some text")
    retryable = found.get("retryable")
    if "retryable" in found and not (isinstance(retryable, str) and is_template(retryable)):
        reader.boolean(retryable, (*path, "retryable"))


def _outcome(reader: Reader, value: Any, path: Path) -> None:
    found = reader.mapping(value, path, "write outcome: {status: ok, result: …}")
    reader.keys(found, path, OUTCOME_KEYS, {}, "an outcome")
    if isinstance(value, dict) and reader.required(found, "status", path, "the outcome", "add status: ok or error"):
        reader.choice(found["status"], (*path, "status"), ("ok", "error"))
    for key in ("http", "pg", "py", "meta"):
        if key in found:
            reader.mapping(found[key], (*path, key), f"write {key}: {{key: value}}")
    if "error" in found and found.get("status") == "ok":
        reader.key((*path, "error"), "DSL204", f"an outcome that is ok has no error ({kind_of(found['error'])} is "
                   "given)", "write status: error, or remove it")
    elif "error" in found:
        _error(reader, found["error"], (*path, "error"))


def _reached(reader: Reader, mock: Mock, before: list[Mock], path: Path) -> None:
    """A mock behind one of the same task that answers every call is never asked."""
    for other in before:
        same = (other.playbook, other.step, other.task) == (mock.playbook, mock.step, mock.task) and mock.task
        if same and other.when is None and all(getattr(other, key) is None for key in SELECTORS):
            reader.value(path, "DSL920", f"the mock of {short(mock.step)} on line {other.line} answers every call, "
                         "this one never does", "move it in front, or give the other one an attempt or a when",
                         warning=True)
            return

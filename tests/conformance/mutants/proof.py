"""A test called without pytest: all cases of its parameters, or the one that is named.

Only tests that need no fixture. A test fails by what it finds, in its own code: an error from within the product means
that the mutant broke more than its clause, and is not taken for a proof.
"""

import asyncio
import inspect
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

TESTS = ROOT / "tests"
TEST = re.compile(r"tests/(?P<file>[\w/]+)\.py::(?P<name>test_\w+)(?:\[(?P<case>[^\]]+)\])?")


def fails(test: str) -> bool:
    """Whether one of its cases fails."""
    return any(_fails(call) for call in calls(test))


def calls(test: str) -> list[Callable[[], Any]]:
    found = TEST.fullmatch(test)
    assert found is not None, test
    function = getattr(import_module("tests." + found["file"].replace("/", ".")), found["name"])
    cases = [(name, given) for name, given in _cases(function) if found["case"] in (None, name)]
    assert cases, f"no case {found['case']} of {test}"
    return [lambda given=given: function(**given) for _, given in cases]


def _fails(call: Callable[[], Any]) -> bool:
    try:
        ended = call()
        if inspect.isawaitable(ended):
            asyncio.run(_awaited(ended))
    except pytest.fail.Exception:
        return True
    except Exception as error:
        if not _is_of_a_test(error):
            raise
        return True
    return False


def _is_of_a_test(error: Exception) -> bool:
    """Raised in a file of the tests."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Path(last.filename).is_relative_to(TESTS)


async def _awaited(ended: Any) -> None:
    await ended


def _cases(function: Callable[..., Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The cases with their ids, as pytest has them for texts, numbers and ids that are written out."""
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    for chosen in product(*([*_values(*mark.args, **mark.kwargs)] for mark in reversed(marks))):
        yield "-".join(name for name, _ in chosen), {key: value for _, given in chosen for key, value in given.items()}


def _values(names: str | Sequence[str], values: Sequence[Any], ids: Any = None) -> Iterator[tuple[str, dict[str, Any]]]:
    keys = [each.strip() for each in names.split(",")] if isinstance(names, str) else list(names)
    for index, value in enumerate(values):
        given = getattr(value, "values", None) if hasattr(value, "marks") else None
        row = tuple(given) if given is not None else (value,) if len(keys) == 1 else tuple(value)
        named = getattr(value, "id", None) if given is not None else None
        if named is None and callable(ids):
            named = "-".join(str(ids(each)) for each in row)
        elif named is None and ids is not None:
            named = ids[index]
        yield str(named or "-".join(map(str, row))), dict(zip(keys, row, strict=True))

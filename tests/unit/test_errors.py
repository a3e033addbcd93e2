"""Every exception of ours stands in one of the two trees that shared/errors.py draws, and no two have one name."""

import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator

import pytest

import services
import shared
from shared import errors
from shared.engine.pipeline.ownership import Fenced
from shared.errors import NoetlError, Signal

DRAWN = re.compile(r"^    ((?:│   |    )*)(?:(?:├|└)── )?(\w+) {2,}\S", re.MULTILINE)


def modules() -> Iterator[str]:
    for package in (shared, services):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith(".__main__"):
                yield found.name


def exceptions() -> list[type[BaseException]]:
    found = {
        value for name in modules() for value in vars(importlib.import_module(name)).values()
        if inspect.isclass(value) and issubclass(value, BaseException) and value.__module__ == name
    }
    return sorted(found, key=lambda each: (each.__module__, each.__name__))


def drawn() -> dict[str, str]:
    """The names in the docstring, each with the one it hangs from."""
    above: list[str] = []
    found: dict[str, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        if match := DRAWN.match(line):
            depth = len(match[1]) // 4 + ("── " in line)
            above[depth:] = [match[2]]
            assert match[2] not in found, f"{match[2]} is drawn twice"
            found[match[2]] = above[depth - 1] if depth else ""
    return found


ALL = exceptions()
TREE = drawn()


def bases(each: type[BaseException]) -> list[str]:
    return [base.__name__ for base in each.__bases__ if issubclass(base, NoetlError | Signal)]


def test_the_walk_sees_all_modules() -> None:
    assert len(list(modules())) > 500
    assert {NoetlError, Signal, Fenced} <= set(ALL)


@pytest.mark.parametrize("each", ALL, ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_an_exception_is_drawn_where_it_stands(each: type[BaseException]) -> None:
    assert each.__name__ in TREE, "draw it in shared/errors.py"
    above = TREE[each.__name__]
    assert above or each in (NoetlError, Signal)
    assert bases(each) == ([above] if above else []), "it derives from another one than it is drawn below"


def test_no_two_exceptions_have_one_name() -> None:
    assert [name for name, times in Counter(each.__name__ for each in ALL).items() if times > 1] == []


def test_nothing_is_drawn_that_is_gone() -> None:
    assert TREE.keys() - {each.__name__ for each in ALL} == set()


def test_a_handler_of_errors_lets_signals_pass() -> None:
    assert [each for each in ALL if issubclass(each, NoetlError) and issubclass(each, Signal)] == []


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.__name__)
def test_an_exception_says_what_it_means(each: type[BaseException]) -> None:
    assert vars(each).get("__doc__")

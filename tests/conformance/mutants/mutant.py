"""The product with one clause of the language taken away.

A mutant changes an expression of a function, or a constant, and nothing else: `old` must be there exactly once, so
that whoever rewrites the function looks at the mutant too. The code of the function itself is exchanged, so that it is
broken wherever it was imported to. What was computed before is forgotten, on the way in and on the way out.
"""

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any
from unittest import mock

from msgspec import Struct

_CACHE = type(functools.cache(len))


class Edit(Struct, frozen=True):
    """`where` is `module:function` or `module:Class.method`."""

    where: str
    old: str
    new: str

    @contextmanager
    def applied(self) -> Iterator[None]:
        function = inspect.unwrap(_found(self.where))
        assert isinstance(function, FunctionType), self.where
        before = function.__code__
        function.__code__ = self._code(function)
        try:
            yield
        finally:
            function.__code__ = before

    def _code(self, function: FunctionType) -> CodeType:
        source = dedent(inspect.getsource(function))
        assert source.count(self.old) == 1, f"{self.where} has {self.old!r} {source.count(self.old)} times, not once"
        tree = ast.parse(source.replace(self.old, self.new))
        (node,) = tree.body
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef), self.where
        node.decorator_list = []
        module = compile(tree, inspect.getfile(function), "exec")
        code = next(each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == node.name)
        assert code.co_freevars == function.__code__.co_freevars, self.where
        return code


class Constant(Struct, frozen=True):
    """`where` is `module:NAME`; `change` makes the new value of the old one. Only for what is read as `module.NAME`
    or within its module: a copy that was imported stays as it is."""

    where: str
    change: Callable[[Any], Any]

    @contextmanager
    def applied(self) -> Iterator[None]:
        module, _, name = self.where.partition(":")
        with mock.patch.object(import_module(module), name, self.change(_found(self.where))):
            yield


class Mutant(Struct, frozen=True):
    """`clauses` are rows of docs/conformance.md; `test` is one that their rows name, and it must fail."""

    clauses: tuple[str, ...]
    test: str
    patch: Edit | Constant

    @contextmanager
    def alive(self) -> Iterator[None]:
        _forget()
        try:
            with self.patch.applied():
                yield
        finally:
            _forget()


def _found(where: str) -> Any:
    module, _, name = where.partition(":")
    return attrgetter(name)(import_module(module))


def _forget() -> None:
    """Empties every cache of the product."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("shared.", "services.")):
            for value in vars(module).values():
                if isinstance(value, _CACHE):
                    value.cache_clear()

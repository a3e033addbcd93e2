"""The shape of a type as a short text: another field, default or type anywhere in it gives another one."""

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect


@cache
def shape(kind: type[Any]) -> str:
    return hashlib.sha256("\n".join(_lines(inspect.type_info(kind), set())).encode()).hexdigest()[:12]


def _lines(kind: inspect.Type, seen: set[type[Any]]) -> Iterator[str]:
    """Every Struct once: they may hold each other."""
    if not isinstance(kind, inspect.StructType):
        yield f"{type(kind).__name__} {getattr(kind, 'values', '')}"
        for inner in _inner(kind):
            yield from _lines(inner, seen)
        return
    yield f"{kind.cls.__name__} {kind.tag}"
    if kind.cls not in seen:
        seen.add(kind.cls)
        for field in kind.fields:
            yield f"{field.encode_name} = {_default(field)}"
            yield from _lines(field.type, seen)


def _inner(kind: inspect.Type) -> Iterator[inspect.Type]:
    for name in ("types", "item_types"):
        yield from getattr(kind, name, ())
    for name in ("item_type", "key_type", "value_type", "type"):
        if hasattr(kind, name):
            yield getattr(kind, name)


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    made = field.default_factory
    return repr(msgspec.to_builtins(field.default if made is msgspec.NODEFAULT else made()))

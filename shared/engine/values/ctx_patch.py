"""ctx patches: plain writes and the reducers of V10 §15 (`$add`, `$append`, `$max`, `$min`, `$union`, `$merge`).

A patch maps a key to a value, or to a one-key mapping whose key is a reducer. Reducers commute, so
parallel iterations may all use them; a plain key may be written once per step-run there (DSL2 §6.6).
"""

from collections.abc import Callable, Mapping
from typing import Any

from shared.errors import TemplateError


def _append(old: Any, new: Any) -> Any:
    return [*_listed(old), new]


def _union(old: Any, new: Any) -> Any:
    kept = list(_listed(old))
    return kept + [value for value in _listed(new) if value not in kept]


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "$add": lambda old, new: new if old is None else old + new,
    "$append": _append,
    "$max": lambda old, new: new if old is None else max(old, new),
    "$min": lambda old, new: new if old is None else min(old, new),
    "$union": _union,
    "$merge": lambda old, new: {**(old or {}), **new},
}


def reducer(value: Any) -> str | None:
    """The reducer's name when a patch value is one."""
    if isinstance(value, dict) and len(value) == 1:
        (name,) = value
        return name if name in REDUCERS else None
    return None


def apply_patch(ctx: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The ctx after the patch. A reducer that does not fit the old value is a TemplateError."""
    patched = dict(ctx)
    for key, value in patch.items():
        name = reducer(value)
        patched[key] = value if name is None else _reduce(key, name, patched.get(key), value[name])
    return patched


def _reduce(key: str, name: str, old: Any, new: Any) -> Any:
    try:
        return REDUCERS[name](old, new)
    except TypeError:
        kinds = f"{type(old).__name__} and {type(new).__name__}"
        raise TemplateError(f"set_ctx: {name} cannot combine {kinds} for ctx.{key}") from None


def work_of(ctx: Mapping[str, Any], patch: Mapping[str, Any]) -> int:
    """Units of applying the patch: what a reducer copies or compares."""
    return sum(_work(name, ctx.get(key), value[name]) for key, value in patch.items() if (name := reducer(value)))


def _work(name: str, old: Any, new: Any) -> int:
    size = len(old) if isinstance(old, list | dict | str) else 0
    if name == "$union":
        return size * len(_listed(new)) >> 1
    return size >> (3 if name == "$merge" else 7)


def plain_keys(patch: Mapping[str, Any]) -> set[str]:
    """The keys written outright, which may clash between parallel iterations."""
    return {key for key, value in patch.items() if reducer(value) is None}

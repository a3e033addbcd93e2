"""ctx patches: plain writes and the reducers of V10 §15 (`$add`, `$append`, `$extend`, `$max`, `$min`, `$union`,
`$merge`).

A patch maps a key to a value, or to a one-key mapping whose key is a reducer. Reducers commute, so
parallel iterations may all use them; a plain key may be written once per step-run there (DSL2 §6.6). A value
that is too large for the log stands in a patch, and in ctx, as a reference to it (`$stored`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from shared.errors import TemplateError

STORED = "$stored"
MAX_CTX_BYTES = 262_144
AS_RESULT = "let it be the result of its step, which may be large, and read it by the step's name"


def _append(old: Any, new: Any) -> Any:
    return [*_listed(old), new]


def extended(old: Any, new: Any) -> list[Any]:
    """A list is joined, any other value appended."""
    return [*_listed(old), *_listed(new)]


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
    "$extend": extended,
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
        patched[key] = value if name is None else combined(f"ctx.{key}", name, patched.get(key), value[name])
    return patched


def combined(where: str, name: str, old: Any, new: Any) -> Any:
    """What a reducer makes of two values; `where` says whose."""
    setter = "set_" + where.partition(".")[0]
    if is_stored(old):
        raise TemplateError(f"{setter}: {where} is too large for {name}: write it as a whole, or keep it as a result")
    try:
        return REDUCERS[name](old, new)
    except TypeError:
        kinds = f"{type(old).__name__} and {type(new).__name__}"
        raise TemplateError(f"{setter}: {name} cannot combine {kinds} for {where}") from None


def is_stored(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and STORED in value


def refuse_stored(patch: Mapping[str, Any]) -> None:
    """Only the engine refers to stored values; a value that looks like a reference is not taken for one."""
    for key, value in patch.items():
        if is_stored(value):
            raise TemplateError(f"set_ctx: a value of ctx cannot be a mapping with the one key {STORED}: ctx.{key}")


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


def size_of(patches: tuple[Mapping[str, Any], ...]) -> int:
    """In bytes of the log."""
    return len(msgspec.json.encode(patches)) if patches else 0


def over_limit(ctx: Mapping[str, Any], patch: Mapping[str, Any], size: int, *, bare: bool = False) -> str:
    """What is said of a patch that makes ctx too large: which of its keys is the largest. `bare`: as before the fourth
    edition of the language."""
    if bare:
        return f"ctx would grow to {size} bytes, over {MAX_CTX_BYTES}: store it and keep a reference"
    key, own = largest([{key: ctx[key] for key in patch}])
    return f"ctx.{key} of {own} bytes would make ctx {size} bytes large, over its limit of {MAX_CTX_BYTES}: {AS_RESULT}"


def largest(patches: Iterable[Mapping[str, Any]]) -> tuple[str, int]:
    """The key of which most is written, and how many bytes."""
    sizes = Counter[str]()
    for patch in patches:
        sizes.update({key: len(msgspec.json.encode(value)) for key, value in patch.items()})
    return sizes.most_common(1)[0] if sizes else ("", 0)


def lasting(patches: tuple[dict[str, Any], ...], size: int) -> tuple[dict[str, Any], ...]:
    """Without what a later one of them replaces outright, when they are larger than ctx may be: what counts is what ctx
    is, not all that was ever written. `size` is that of all of them."""
    if size <= MAX_CTX_BYTES:
        return patches
    kept: list[dict[str, Any]] = []
    replaced: set[str] = set()
    for patch in reversed(patches):
        if left := {key: value for key, value in patch.items() if key not in replaced}:
            kept.append(left)
        replaced |= plain_keys(patch)
    return tuple(reversed(kept))

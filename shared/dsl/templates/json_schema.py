"""JSON Schemas of signals, checked within a budget: every keyword pays for what it looks at before it does, a pattern
for the most ways there are to try it, and nothing is fetched."""

import re
import re._parser as sre  # type: ignore[import-not-found]  # the tree of a pattern, as `re` itself reads it
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from shared.dsl.templates.budget import Budget, Limit, spend
from shared.dsl.templates.measure import measure
from shared.errors import OverLimit, Signal

MAX_SCHEMA_NODES = 5000    # as `measure` counts them: about 1,000 keywords and values
MAX_PATTERN = 500          # characters
MAX_PATTERNS = 5000        # of all patterns of a schema; reading them takes about 8 µs for each character
MAX_CHECK_WORK = 200_000   # units of checking one payload
_KEYWORD = 200             # units of one keyword on one value
_REFERENCE = 2000          # and of finding what one refers to
_TOO_LARGE = "the schema is too large"
_MANY = 2**40              # ways that are never tried
_BACK = ("GROUPREF", "GROUPREF_EXISTS", "GROUPREF_IGNORE")


class BadPattern(Signal, ValueError):
    """Why a pattern is rejected."""


def problem(schema: Any) -> str:
    """Why a schema is rejected; empty if it is accepted. It is JSON, but perhaps not a schema."""
    try:
        measure(schema, MAX_SCHEMA_NODES, _TOO_LARGE)
        together = 0
        for pattern in dict.fromkeys(_patterns(schema)):
            _tree(pattern)
            together += len(pattern)
            if together > MAX_PATTERNS:
                return f"the patterns are too long together (limit {MAX_PATTERNS} characters)"
    except (Limit, BadPattern) as error:
        return str(error)
    return ""


def misfit(payload: Any, schema: dict[str, Any], most: int) -> str:
    """What in the payload does not match the schema, in at most so many characters; empty if all does."""
    if wrong := problem(schema):
        return wrong[:most]
    from jsonschema.exceptions import best_match

    try:
        with Budget(MAX_CHECK_WORK, "too much work"):
            found = best_match(_validator(schema).iter_errors(payload))
    except (Limit, OverLimit, RecursionError):
        return f"the payload takes too much work to check (limit {MAX_CHECK_WORK} units)"
    except Exception as error:  # a forged schema may be anything, also one that refers to what is not there
        return f"the schema cannot be used ({type(error).__name__})"
    return "" if found is None else f"{found.json_path}: {found.message}"[:most]


def _validator(schema: dict[str, Any]) -> Any:
    from referencing import Registry

    return _counting()(schema, registry=Registry())


@lru_cache(maxsize=1)
def _counting() -> Any:
    from jsonschema import Draft202012Validator, validators

    known = {name: _counted(name, check) for name, check in Draft202012Validator.VALIDATORS.items()}
    return validators.extend(Draft202012Validator, known)  # type: ignore[no-untyped-call]


def _counted(name: str, check: Callable[..., Any]) -> Callable[..., Any]:
    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        nodes, chars = measure(instance, MAX_CHECK_WORK, _TOO_LARGE)
        spend(_KEYWORD + nodes + (chars >> 4))
        if name == "pattern" and isinstance(instance, str):
            spend(ways(value, len(instance)))
        elif name in ("patternProperties", "additionalProperties") and isinstance(instance, dict):
            patterns = (value if name == "patternProperties" else schema.get("patternProperties")) or ()
            for pattern in patterns:
                spend(sum(ways(pattern, len(key)) for key in instance))
        elif name == "enum":
            spend(8 * len(value))  # a message names them all
        elif name in ("$ref", "$dynamicRef"):
            spend(_REFERENCE)
        elif name == "uniqueItems" and isinstance(instance, list):
            spend(len(instance) * len(instance) + nodes * max(1, len(instance).bit_length()))
        return check(validator, value, instance, schema) or iter(())

    return run


def _patterns(schema: Any) -> Iterator[str]:
    """All that may be used as one; a value of `enum` that looks like one is too."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack += node
        elif isinstance(node, dict):
            stack += node.values()
            if isinstance(node.get("pattern"), str):
                yield node["pattern"]
            if isinstance(node.get("patternProperties"), dict):
                yield from node["patternProperties"]


@lru_cache(maxsize=256)
def _tree(pattern: str) -> Any:
    if len(pattern) > MAX_PATTERN:
        raise BadPattern(f"a pattern is too long (limit {MAX_PATTERN} characters)")
    try:
        tree = sre.parse(pattern)
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        raise BadPattern(f"{pattern[:60]!r} is not a pattern") from None
    _ways(tree, 1)
    return tree


def ways(pattern: str, length: int) -> int:
    """Units of searching a text of this length: no more ways can be tried than there are to choose, from every place,
    and a step of one is at most a quarter of a unit."""
    tree = _tree(pattern)
    anchored = bool(tree) and str(tree[0][0]) == "AT" and "BEGINNING" in str(tree[0][1])
    starts = 1 if anchored else length + 1
    return min(_MANY, (length + starts * (len(pattern) + _ways(tree, length))) >> 2)


def _ways(tree: Any, length: int) -> int:
    found = 1
    for op, value in tree:
        match str(op):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                found *= _repeated(value[0], min(int(value[1]), length), _ways(value[2], length))
            case "BRANCH":
                found *= sum(_ways(each, length) for each in value[1])
            case "SUBPATTERN" | "ASSERT" | "ASSERT_NOT":
                found *= _ways(value[-1], length)
            case "ATOMIC_GROUP":
                found *= _ways(value, length)
            case name if name in _BACK:
                raise BadPattern("a pattern that refers back to a group is not taken")
            case _:
                continue
        if found > _MANY:
            return _MANY
    return found


def _repeated(least: int, most: int, each: int) -> int:
    """How often it repeats, and how many ways each time can match."""
    if each == 1:
        return max(1, most - least + 1)
    total = 0
    for times in range(max(0, most) + 1):
        total += each**times if times < 40 else _MANY
        if total > _MANY:
            return _MANY
    return max(1, total)

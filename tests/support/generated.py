"""Values of any type that `msgspec` knows, drawn by a seed: every event there is, with and without optional parts."""

import random
import re
from datetime import UTC, datetime
from typing import Any

from msgspec import inspect

TEXTS = ("", "a", "b:1", "fetch", "ä\u00e9€😀", 'with "quotes" \\ and\nlines', "completed", "{}", "*", "1")
ANYTHING = (None, True, 0, -7, 2**40, 1.5, "x", "\\u0000", [], [1, [2]], {}, {"kind": "broken", "n": 1}, {"ä": [None]})
MATCHING = ("a1", "0" * 64, f"a1/{'0' * 64}")  # where a text has a pattern
MAX_ITEMS = 3


def value_of(kind: Any, rng: random.Random) -> Any:
    return _drawn(inspect.type_info(kind), rng)


def _drawn(info: Any, rng: random.Random) -> Any:
    match info:
        case inspect.Metadata(type=inner):
            return _drawn(inner, rng)
        case inspect.AnyType():
            return rng.choice(ANYTHING)
        case inspect.NoneType():
            return None
        case inspect.BoolType():
            return rng.random() < 0.5
        case inspect.IntType(ge=least, le=most):
            return rng.choice([n for n in (-3, -2, -1, 0, 1, 2, 12, 2**31 - 1) if _within(n, least, most)])
        case inspect.FloatType(ge=least, le=most):
            return rng.choice([n for n in (0.0, 0.25, 3.0) if _within(n, least, most)])
        case inspect.StrType(pattern=pattern, min_length=shortest):
            if pattern is not None:
                return next(text for text in MATCHING if re.search(pattern, text))
            return rng.choice([text for text in TEXTS if len(text) >= (shortest or 0)])
        case inspect.DateTimeType():
            return datetime(2030, 1, 1, tzinfo=UTC)
        case inspect.LiteralType(values=values):
            return rng.choice(values)
        case inspect.UnionType(types=types):
            return _drawn(rng.choice(types), rng)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            found = [_drawn(item, rng) for _ in range(rng.randrange(MAX_ITEMS))]
            return found if isinstance(info, inspect.ListType) else tuple(found)
        case inspect.TupleType(item_types=items):
            return tuple(_drawn(item, rng) for item in items)
        case inspect.DictType(key_type=key, value_type=inner):
            return {_drawn(key, rng): _drawn(inner, rng) for _ in range(rng.randrange(MAX_ITEMS))}
        case inspect.StructType(cls=cls, fields=fields):
            return cls(**{f.name: _drawn(f.type, rng) for f in fields if f.required or rng.random() < 0.5})
    raise AssertionError(f"nothing is drawn for {info}")


def _within(n: float, least: float | None, most: float | None) -> bool:
    return (least is None or n >= least) and (most is None or n <= most)

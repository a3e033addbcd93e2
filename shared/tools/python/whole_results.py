"""Whole results in the hands of a program. Programs are written for both of what a result is: the payload alone, as
`result` is in the documents (FX §8.1), and what is around it.

A whole loop is the list of its iterations' results in all that Python does with it (order, slices, JSON), and answers
as the mapping `{results, stats, count, failed}`: `x["results"]` is there, and `isinstance(x, dict)` goes by
`__class__`. A whole table is the mapping `{rows, row_count, columns}`, also in JSON, and answers as the list of its
rows.
"""

from collections.abc import Iterator
from typing import Any

Path = list[str | int]


class LoopResults(list[Any]):
    def __init__(self, results: list[Any], count: int, failed: int) -> None:
        super().__init__(results)
        done = count - failed
        stats = {"total": count, "done": done, "success": done, "failed": failed}
        self._named = {"results": results, "stats": stats, "count": count, "failed": failed}

    @property
    def __class__(self) -> type:
        return dict

    @__class__.setter
    def __class__(self, _new: type) -> None:
        raise TypeError("a loop's results stay what they are")

    def __getitem__(self, key: Any) -> Any:
        return self._named[key] if isinstance(key, str) else super().__getitem__(key)

    def __contains__(self, item: Any) -> bool:
        return (isinstance(item, str) and item in ("results", "stats")) or super().__contains__(item)

    def get(self, key: Any, default: Any = None) -> Any:
        return self._named.get(key, default)

    def keys(self) -> Any:
        return self._named.keys()

    def values(self) -> Any:
        return self._named.values()

    def items(self) -> Any:
        return self._named.items()


class TableRows(dict[str, Any]):
    """Iterated, counted, indexed by a number and compared with a list it is its rows; it is true when it has any."""

    @property
    def __class__(self) -> type:
        return list

    @__class__.setter
    def __class__(self, _new: type) -> None:
        raise TypeError("a table's rows stay what they are")

    def _rows(self) -> list[Any]:
        rows: list[Any] = self["rows"]
        return rows

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else self._rows()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows())

    def __reversed__(self) -> Iterator[Any]:
        return iter(self._rows()[::-1])

    def __len__(self) -> int:
        return len(self._rows())

    def __contains__(self, item: Any) -> bool:
        return super().__contains__(item) if isinstance(item, str) else item in self._rows()

    def __eq__(self, other: object) -> bool:
        return self._rows() == other if type(other) is list else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __add__(self, other: Any) -> Any:
        return self._rows() + other

    def __radd__(self, other: Any) -> Any:
        return other + self._rows()


def with_wholes(args: dict[str, Any], loops: list[tuple[Path, int, int]], tables: list[Path]) -> None:
    for path, count, failed in loops:
        owner = _owner(args, path)
        owner[path[-1]] = LoopResults(owner[path[-1]], count, failed)
    for path in tables:
        owner = _owner(args, path)
        owner[path[-1]] = TableRows(owner[path[-1]])


def _owner(args: Any, path: Path) -> Any:
    for key in path[:-1]:
        args = args[key]
    return args

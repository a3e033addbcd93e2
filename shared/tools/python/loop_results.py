"""A whole loop in the hands of a program: the list of its iterations' results, which also answers as the mapping
`{results, stats, count, failed}`.

Programs are written for both. So it is a list in all that Python does with it (order, slices, JSON), and it passes for
a mapping where a program asks: `isinstance(x, dict)` goes by `__class__`, and `x["results"]` is there.
"""

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


def with_loops(args: dict[str, Any], loops: list[tuple[Path, int, int]]) -> None:
    for path, count, failed in loops:
        owner: Any = args
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = LoopResults(owner[path[-1]], count, failed)

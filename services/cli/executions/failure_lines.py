"""What is known of a failed call, for people: line by line, with the lines of the playbook in a traceback."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shared.bus.ports import Bus

# A frame of the author's code, and the text of its line below it.
_FRAME = re.compile(r'^( *File "<python [0-9a-f]+>", line (\d+))(.*)\n +(.*)$', re.MULTILINE)
NAMES = {"detail": "detail", "traceback": "", "body": "the answer's body", "stdout": "printed", "output": "printed",
         "stderr": "printed to stderr"}


def lines(failure: Mapping[str, Any] | None, before: str = "  ") -> Iterator[str]:
    """Nothing where there is none."""
    for name, title in NAMES.items():
        text = (failure or {}).get(name)
        if not isinstance(text, str):
            continue
        found = text.splitlines()
        if title and len(found) == 1:
            yield f"{before}{title}: {found[0]}"
        elif title:
            yield f"{before}{title}:"
        if not title or len(found) > 1:
            yield from (f"{before}{'  ' if title else ''}{each}" for each in found)


async def located(bus: "Bus", digest: str, failure: dict[str, Any] | None) -> dict[str, Any] | None:
    """With the lines of the playbook, if its source is there."""
    from shared.dsl.model.edition import source_of
    from shared.errors import NoetlError
    from shared.runtime.stores import catalog

    if not failure or not digest or "traceback" not in failure:
        return failure
    try:
        source = await catalog.source(bus, source_of(digest))
    except NoetlError:
        return failure
    return in_source(failure, source.decode("utf-8", "replace"))


def in_source(failure: dict[str, Any], source: str) -> dict[str, Any]:
    """`line` is that of the playbook in which the author's code stood; nothing is said where it could be several."""
    traceback = str(failure["traceback"])
    frames = [(int(found[2]), found[4].strip()) for found in _FRAME.finditer(traceback)]
    before = _offset(frames, source.splitlines())
    if before is None:
        return failure
    told = _FRAME.sub(lambda found: f"{found[1]}{found[3]} (line {before + int(found[2])} of the playbook)"
                      + found[0][found.end(3) - found.start():], traceback)
    return {**failure, "line": before + frames[-1][0], "traceback": told}


def _offset(frames: list[tuple[int, str]], source: list[str]) -> int | None:
    """How many lines stand before the code: every frame's text is where it says."""
    if not frames:
        return None
    fits = [before for before in range(len(source))
            if all(before + line <= len(source) and source[before + line - 1].rstrip().endswith(text)
                   for line, text in frames)]
    return fits[0] if len(fits) == 1 else None

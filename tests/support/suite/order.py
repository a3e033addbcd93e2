"""In which order the files of tests run, several at a time.

1. Most files wait: for servers, processes, leases. Beside one of them there is room for another that computes.
2. A few only compute, the fuzzers for a minute each. One after another, or at the end, they are what everybody waits
   for; so they are spread over the files that wait, the fuzzers so far apart that one is done before the next begins.
3. The many small files of `tests/unit/` fill the end, where no process may be left alone with a long one.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

FUZZERS = "tests/property/test_fuzz_"
COMPUTING = ("tests/golden/", "tests/property/", "tests/sim/")
LAST = "tests/unit/"


def ordered(files: Sequence[str]) -> list[str]:
    fuzzers, computing, waiting, last = list[str](), list[str](), list[str](), list[str]()
    for file in files:
        of_a_kind = (
            fuzzers if file.startswith(FUZZERS) else computing if file.startswith(COMPUTING)
            else last if file.startswith(LAST) else waiting
        )
        of_a_kind.append(file)
    return [*spread(fuzzers, [*spread(computing, waiting)]), *last]


def spread(few: Sequence[str], many: Sequence[str]) -> Iterator[str]:
    """Each of the few, and behind it its share of the others."""
    rest = iter(many)
    for number, file in enumerate(few):
        yield file
        yield from islice(rest, (number + 1) * len(many) // len(few) - number * len(many) // len(few))
    yield from rest

"""Compiles hostile sources and prints what each took: `python -m tests.support.inputs.bounds`. A process of its own,
so that its memory is the compiler's.

Seconds of CPU time are those of some machine, in some minute: of two processes that share a core each takes longer.
So a source that takes too long is measured again, and beside it a piece of work that never changes; what counts is
what it would have taken where that work takes `PIECE_S`."""

import functools
import gc
import io
import json
import resource
import sys
import time
import tokenize
from collections.abc import Iterator

from shared.dsl.compile import compile_playbook
from shared.dsl.source.nodes import MAX_SOURCE_BYTES
from shared.tools import registry
from tests.support.inputs import hostile

DENSE_BYTES = 8 * 1024
LARGE_BYTES = 200 * 1024
TRIES = 5
MAX_S = 0.2  # within it, it is not measured again
PIECE_S = 0.010
PIECE = "name = call(1, 'two', three[4]) + 5  # six\n" * 200


def sources() -> Iterator[tuple[str, str | bytes]]:
    for name, source in hostile.refused(MAX_SOURCE_BYTES):
        yield f"{name}, largest", source
    for name, source in hostile.programs(256 * 1024):
        yield f"{name}, long", source
    for name, source in (*hostile.templates(60 * 1024), *hostile.programs(32 * 1024), *hostile.dense(DENSE_BYTES)):
        yield name, source


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * (1024 if sys.platform == "darwin" else 1))


def pace() -> float:
    """How many times longer than elsewhere anything takes here and now; never less than once."""
    began = time.process_time()
    for _ in tokenize.generate_tokens(io.StringIO(PIECE).readline):
        pass
    return max(1.0, (time.process_time() - began) / PIECE_S)


def main() -> None:
    kinds = registry.specs()
    compile_playbook(hostile.ONE, kinds=kinds)
    caches = [each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper)]
    gc.freeze()
    before, found, sizes = peak_mb(), {}, []
    for _, source in hostile.hungry(LARGE_BYTES):  # for their memory alone
        compile_playbook(source, kinds=kinds)
    for name, source in sources():
        taken: list[float] = []
        while len(taken) < TRIES and min(taken, default=1.0) > MAX_S:
            for cache in caches:  # nothing is remembered from one try to the next
                cache.cache_clear()
            began = time.process_time()
            compiled = compile_playbook(source, kinds=kinds)
            seconds = time.process_time() - began
            taken.append(seconds if seconds <= MAX_S else seconds / pace())
            assert (compiled.plan is None) == any(each.severity == "error" for each in compiled.diagnostics)
        found[name] = min(taken)
        sizes.append(len(source))
    sys.stdout.write(json.dumps({"seconds": found, "mb": peak_mb() - before, "sizes": sizes}))


if __name__ == "__main__":
    main()

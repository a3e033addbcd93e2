"""A bar on stderr while many things are done one after the other; on a terminal alone."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WORTH = 2  # fewer things need no bar


@contextmanager
def bar(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Call what it gives once for each thing that is done."""
    if total < WORTH or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(label, total=total)
        yield lambda: shown.advance(task)

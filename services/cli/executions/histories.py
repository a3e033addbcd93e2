"""Histories that do not fit together: where to look, besides what does not."""

from collections.abc import Iterator
from contextlib import contextmanager

from shared.errors import Corrupt


@contextmanager
def fitting() -> Iterator[None]:
    """Around what reads a whole history."""
    try:
        yield
    except Corrupt as error:
        raise Corrupt(f"{error} (noetlctl verify tells what is wrong)") from None

"""What a command says when it is interrupted: at once, before anything is tidied up, and what becomes of the work."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

_notes: list[str] = []  # of what is under way, the innermost last


@contextmanager
def note(text: str) -> Iterator[None]:
    """What to say if it comes within."""
    _notes.append(text)
    try:
        yield
    finally:
        _notes.remove(text)


def tell(again: bool = False) -> None:
    """`again`: it is being tidied up already."""
    what = "still stopping, which takes a few seconds" if again else "interrupted"
    known = f"; {_notes[-1]}" if _notes and not again else ""
    if sys.stderr.isatty():
        click.echo("", err=True)  # behind ^C
    click.echo(f"noetlctl: {what}{known}", err=True)

"""What a command prints on stdout, in the format that was asked for. A list of things is a table, one thing is text;
both are the same values as JSON, YAML or names. Colours are for terminals, and not where NO_COLOR is set."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import click

from services.cli.console import screen
from shared.visible import is_hostile, line

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = ("table", "wide", "json", "yaml", "name", "jsonl")
GAP = "  "
COLOURS = {
    "completed": "green", "done": "green", "failed": "red", "cancelled": "yellow", "cancelling": "yellow",
    "running": "cyan", "paused": "blue", "waiting": "blue", "compensating": "magenta",
}


class Column(NamedTuple):
    """`value` is a key of the row, or what makes the text of one; `wide`: shown with -o wide alone; `colour`: the
    text is a status."""

    title: str
    value: str | Callable[[Mapping[str, Any]], Any]
    wide: bool = False
    colour: bool = False

    def text(self, row: Mapping[str, Any]) -> str:
        found = row.get(self.value) if isinstance(self.value, str) else self.value(row)
        return "-" if found is None or found == "" else str(found)


def option(*formats: str, default: str = "") -> Callable[[F], F]:
    """`-o`; of FORMATS unless said otherwise, the first one by default."""
    choices = formats or FORMATS
    return click.option(
        "-o", "--output", type=click.Choice(choices), default=default or choices[0], show_default=True,
        help="How to print.",
    )


def is_text(output: str) -> bool:
    """For people, rather than for programs."""
    return output in ("table", "wide", "text")


def rows(found: Sequence[Mapping[str, Any]], columns: Sequence[Column], output: str, name: str) -> None:
    """A list of things; `name` is the key of their names."""
    match output:
        case "json" | "yaml":
            value([dict(row) for row in found], output)
        case "jsonl":
            for row in found:
                value(dict(row), "jsonl")
        case "name":
            for row in found:
                click.echo(row[name])
        case _:
            for each in table_lines(found, columns, output):
                click.echo(each)


def table_lines(found: Sequence[Mapping[str, Any]], columns: Sequence[Column], output: str) -> list[str]:
    shown = [column for column in columns if output == "wide" or not column.wide]
    texts = [[column.text(row) for column in shown] for row in found]
    styles = [COLOURS.get if column.colour else _plain for column in shown]
    return aligned([[column.title for column in shown], *texts], [_plain] * len(shown), styles)


def document(found: Mapping[str, Any], output: str, name: str, text: Callable[[], None]) -> None:
    """One thing; `text` prints it for people."""
    match output:
        case "json" | "yaml" | "jsonl":
            value(dict(found), output)
        case "name":
            click.echo(found[name])
        case _:
            text()


def one_or_rows(
    found: Sequence[Mapping[str, Any]], single: bool, columns: Sequence[Column], output: str, name: str,
    text: Callable[[Mapping[str, Any]], str],
) -> None:
    """One object when one thing was named, a list otherwise; for people a line each."""
    if is_text(output):
        for row in found:
            click.echo(text(row))
    elif single:
        document(found[0], output, name, lambda: None)
    else:
        rows(found, columns, output, name)


def value(found: Any, output: str) -> None:
    if output == "yaml":
        import yaml

        escaped = is_hostile(_json(found)) or not screen.takes_unicode()  # also what a terminal would obey
        text = yaml.safe_dump(json.loads(_json(found)), sort_keys=False, width=120, allow_unicode=not escaped)
        click.echo(text, nl=False)
    else:
        click.echo(_json(found))


def fields(found: Mapping[str, Any]) -> None:
    """One thing for people: a line per field that says something."""
    width = max(map(len, found), default=0) + 1
    for key, each in found.items():
        if each not in (None, "", [], {}):
            click.echo(f"{key + ':':<{width}} {line(text(each))}")


def text(found: Any) -> str:
    """A value within a line."""
    return line(found) if isinstance(found, str) else _json(found)


def table(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Columns as wide as they have to be; the last one is not padded."""
    everything = [list(titles), *(list(each) for each in lines)]
    for each in aligned(everything, [_plain] * len(titles), [_plain] * len(titles)):
        click.echo(each)


def aligned(
    lines: Sequence[Sequence[str]], first: Sequence[Callable[[str], str | None]],
    styles: Sequence[Callable[[str], str | None]],
) -> list[str]:
    """The lines with their columns under each other; `styles` give the colours, `first` those of the first line."""
    lines = [[line(cell) for cell in each] for each in lines]
    widths = [max(len(each[at]) for each in lines) for at in range(len(styles))]
    return [
        GAP.join(
            _coloured(text, width, style(text))
            for text, width, style in zip(each, widths, styles if at else first, strict=True)
        ).rstrip()
        for at, each in enumerate(lines)
    ]


def labels(found: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={each}" for key, each in (found or {}).items())


def _coloured(text: str, width: int, colour: str | None) -> str:
    shown = screen.style(text, fg=colour) if colour else text
    return shown + " " * (width - len(text))


def _plain(_text: str) -> str | None:
    return None


def _json(found: Any) -> str:
    return json.dumps(found, ensure_ascii=not screen.takes_unicode(), default=_text)


def _text(found: Any) -> str:
    return found.isoformat() if isinstance(found, datetime) else str(found)

"""What a command prints on stdout, in the format that was asked for. A list of things is a table, one thing is text;
both are the same values as JSON, YAML or names."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = ("table", "wide", "json", "yaml", "name", "jsonl")
GAP = "  "


class Column(NamedTuple):
    """`value` is a key of the row, or what makes the text of one; `wide`: shown with -o wide alone."""

    title: str
    value: str | Callable[[Mapping[str, Any]], Any]
    wide: bool = False

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
            shown = [column for column in columns if output == "wide" or not column.wide]
            table([column.title for column in shown], [[column.text(row) for column in shown] for row in found])


def document(found: Mapping[str, Any], output: str, name: str, text: Callable[[], None]) -> None:
    """One thing; `text` prints it for people."""
    match output:
        case "json" | "yaml" | "jsonl":
            value(dict(found), output)
        case "name":
            click.echo(found[name])
        case _:
            text()


def value(found: Any, output: str) -> None:
    if output == "yaml":
        import yaml

        text = yaml.safe_dump(json.loads(_json(found)), sort_keys=False, allow_unicode=True, width=120)
        click.echo(text, nl=False)
    else:
        click.echo(_json(found))


def table(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Columns as wide as they have to be; the last one is not padded."""
    everything = [list(titles), *(list(line) for line in lines)]
    widths = [max(len(line[at]) for line in everything) for at in range(len(titles))]
    for line in everything:
        click.echo(GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _json(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False, default=str)

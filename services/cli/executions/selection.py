"""Which executions are meant: their labels, status, path and start; the same options wherever executions are chosen."""

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, NamedTuple

import click

from services.cli.console.exits import USAGE, CliError
from services.cli.console.times import Moment
from services.cli.executions.label_selector import Selector, Term
from services.cli.stack import completions

Command = Callable[..., int]
LIVE = ("running", "paused", "cancelling", "compensating")
OVER = ("completed", "failed", "cancelled")
GROUPS = {"live": LIVE, "over": OVER}
MAX_SELECTED = 10_000  # executions of one call


class Selection(NamedTuple):
    labels: tuple[Term, ...] = ()
    statuses: tuple[str, ...] = ()
    path: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def says_nothing(self) -> bool:
        return self == Selection()


def options(command: Command) -> Command:
    """`-l`, `--status`, `--path`, `--since` and `--until`: the command gets a Selection, `chosen`."""

    @wraps(command)
    def wrapped(
        *, selector: tuple[Term, ...] | None, status: str, path: str, since: datetime | None, until: datetime | None,
        **others: Any,
    ) -> int:
        return command(chosen=Selection(selector or (), statuses(status), path, since, until), **others)

    for add in (
        click.option("--until", type=Moment(), metavar="TIME", help="Started before then."),
        click.option("--since", type=Moment(), metavar="TIME", help="Started since then: 2h ago, or 2026-11-16T10:00."),
        click.option("--path", default="", metavar="PATH", shell_complete=completions.paths,
                     help="Of this playbook; * stands for anything: etl/*."),
        click.option("--status", default="", metavar="STATUS",
                     shell_complete=completions.listed((*LIVE, *OVER, *GROUPS)),
                     help=f"One or several of {', '.join(LIVE + OVER)}; "
                     "live and over stand for those."),
        click.option("-l", "--selector", type=Selector(), metavar="LABELS", help="By labels: team=data,tier!=gold."),
    ):
        wrapped = add(wrapped)
    return wrapped


def statuses(text: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in filter(None, (part.strip() for part in text.split(","))):
        if name not in (*GROUPS, *LIVE, *OVER):
            known = ", ".join((*GROUPS, *LIVE, *OVER))
            raise CliError(f"there is no status {name!r}: choose of {known}", USAGE)
        found |= dict.fromkeys(GROUPS.get(name, (name,)))
    return tuple(found)


def like(path: str) -> str:
    """A pattern of SQL for a path in which * stands for anything."""
    escaped = path.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%")


def where(selection: Selection) -> tuple[str, list[Any]]:
    """The condition in SQL and its values; labels are `labels`, a jsonb column that may be NULL."""
    parts: list[str] = []
    values: list[Any] = []

    def bound(value: Any) -> str:
        values.append(value)
        return f"${len(values)}"

    parts += [_label(term, bound) for term in selection.labels]
    if selection.statuses:
        parts.append(f"status = ANY ({bound(list(selection.statuses))}::text[])")
    if selection.path:
        parts.append(f"path LIKE {bound(like(selection.path))}")
    if selection.since is not None:
        parts.append(f"started_at >= {bound(selection.since)}")
    if selection.until is not None:
        parts.append(f"started_at < {bound(selection.until)}")
    return " AND ".join(parts) or "true", values


def _label(term: Term, bound: Callable[[Any], str]) -> str:
    match term.how:
        case "one of" if len(term.values) == 1:  # containment has an index
            return f"labels @> jsonb_build_object({bound(term.key)}::text, {bound(term.values[0])}::text)"
        case "one of":
            return f"labels ->> {bound(term.key)} = ANY ({bound(list(term.values))}::text[])"
        case "none of":
            return f"COALESCE(labels ->> {bound(term.key)} <> ALL ({bound(list(term.values))}::text[]), true)"
        case "there":
            return f"jsonb_exists(labels, {bound(term.key)})"
        case _:
            return f"NOT COALESCE(jsonb_exists(labels, {bound(term.key)}), false)"

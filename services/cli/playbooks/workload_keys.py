"""Whether anything reads what `--set` sets: a key that is misspelled would change nothing, and nobody would say so."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from shared.dsl.model.plan import Plan

NAMED = 20  # keys in a message


def check(plan: "Plan", sets: tuple[str, ...]) -> None:
    """A usage error for a key that the workload does not have and no template names. Deeper in the workload is data,
    which may be read as a whole: a key that is new there is told and taken."""
    read: frozenset[str] | None = None
    for item in sets:
        keys = item.partition("=")[0].split(".")
        if keys[0] not in plan.workload:
            read = _read(plan) if read is None else read
            if keys[0] not in read and EVERYTHING not in read:
                raise click.BadParameter(f"{plan.path} reads no {keys[0]!r}{_hint(keys[0], plan.workload)}",
                                         param_hint="--set")
        elif new := _new(keys, plan.workload):
            click.echo(f"noetlctl: --set {item.partition('=')[0]}: the workload has no {new}", err=True)


EVERYTHING = "*"  # as a template that names `workload` as a whole


def _read(plan: "Plan") -> frozenset[str]:
    from msgspec import to_builtins

    from shared.dsl.templates.needs import names_used

    needs = names_used(to_builtins([plan.workload, plan.steps, plan.keychain, plan.limit]))
    return needs.names | needs.workload


def _new(keys: list[str], workload: Mapping[str, Any]) -> str:
    """The path of the first key that is not there, in a mapping that has others."""
    at: Any = workload
    for number, key in enumerate(keys):
        if not isinstance(at, Mapping) or not at:
            return ""
        if key not in at:
            return f"{'.'.join(keys[: number + 1])!r}{_hint(key, at)}"
        at = at[key]
    return ""


def _hint(key: str, known: Mapping[str, Any]) -> str:
    from shared.dsl.read.reader import nearest

    if near := nearest(key, known):
        return f": did you mean {near}?"
    names = ", ".join(sorted(map(str, known))[:NAMED])
    return f" (it has {names})" if names else " (its workload is empty)"

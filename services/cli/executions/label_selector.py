"""Label selectors, as kubectl has them: `team=data,tier!=gold,env in (a,b),owner,!old`. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import click

FORM = "write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas"
MAX_TERMS = 32
_TERM = re.compile(r"(?P<no>!)?\s*(?P<key>[^\s=!,()]+)\s*(?:(?P<sign>==?|!=)\s*(?P<value>[^,()]*)"
                   r"|(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?\Z")
_COMMA = re.compile(r",(?![^(]*\))")


class Term(NamedTuple):
    """`one of` and `none of` hold of a label; `none of` also of one that is not there."""

    key: str
    how: Literal["one of", "none of", "there", "not there"]
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        match self.how:
            case "one of":
                return labels.get(self.key) in self.values
            case "none of":
                return labels.get(self.key) not in self.values
            case "there":
                return self.key in labels
            case _:
                return self.key not in labels


def parse(text: str) -> tuple[Term, ...]:
    """ValueError says what is wrong."""
    terms = tuple(_term(part.strip()) for part in _COMMA.split(text))
    if len(terms) > MAX_TERMS:
        raise ValueError(f"over {MAX_TERMS} terms")
    return terms


def _term(text: str) -> Term:
    from shared.events.labels import KEY_FIX, is_key

    found = _TERM.match(text)
    if found is None or (found["no"] and (found["sign"] or found["word"])):
        raise ValueError(f"{text!r} is no term of a selector: {FORM}")
    key = found["key"]
    if not is_key(key):
        raise ValueError(f"{key!r} is not the name of a label: {KEY_FIX}")
    if found["sign"]:
        return Term(key, "none of" if found["sign"] == "!=" else "one of", (found["value"].strip(),))
    if found["word"]:
        values = tuple(each.strip() for each in found["values"].split(","))
        return Term(key, "none of" if found["word"] == "notin" else "one of", values)
    return Term(key, "not there" if found["no"] else "there")


class Selector(click.ParamType[tuple[Term, ...]]):
    name = "selector"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Term, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def assigned(items: tuple[str, ...]) -> dict[str, str]:
    """Labels to give: `key=value`, repeated or separated by commas."""
    from shared.events.labels import wrong

    found: dict[str, str] = {}
    for item in (part for text in items for part in text.split(",")):
        key, sign, value = item.partition("=")
        if not sign:
            raise click.BadParameter(f"{item!r} is not KEY=VALUE", param_hint="--label")
        found[key.strip()] = value.strip()
    if reason := wrong(found):
        raise click.BadParameter(reason, param_hint="--label")
    return found

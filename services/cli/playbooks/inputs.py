"""What people hand over on the command line: payloads, single values, credentials."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from services.cli.console import exits
from services.cli.console.exits import CliError

MAX_INPUT_BYTES = 8 * 1024 * 1024


def payload(text: str | None, sets: tuple[str, ...] = ()) -> dict[str, Any]:
    """`--payload` (JSON, @file or - for stdin), then each `--set a.b=v` on top."""
    value = _object(text, "--payload") if text is not None else {}
    for item in sets:
        _set(value, item)
    return value


def credential(text: str) -> tuple[str, dict[str, Any]]:
    """`name=JSON` or `name=@file`."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.BadParameter("what is given is not NAME=JSON or NAME=@FILE", param_hint="--credential")
    found = _object(value, "--credential")
    _check_name(name)
    return name, found


def _check_name(name: str) -> None:
    from shared.runtime.stores import credentials  # late: `--help` does without the bus

    try:
        credentials.check_name(name)
    except credentials.BadName as error:
        raise CliError(str(error), exits.USAGE) from None


def _object(given: str, hint: str) -> dict[str, Any]:
    try:
        value = _parse(text(given, hint))
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint=hint) from None
    if not isinstance(value, dict):
        raise click.BadParameter("a JSON object is needed, like '{\"key\": 1}'", param_hint=hint)
    return value


def text(given: str, hint: str) -> str:
    """As it is, from @file, or from stdin (-)."""
    if given == "-":
        content = sys.stdin.read(MAX_INPUT_BYTES + 1)
    elif given.startswith("@"):
        try:
            content = Path(given[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise click.BadParameter(f"cannot read {given[1:]}: {error.strerror}", param_hint=hint) from None
    else:
        content = given
    if len(content) > MAX_INPUT_BYTES:
        raise click.BadParameter(f"over {MAX_INPUT_BYTES} bytes: pass a reference instead", param_hint=hint)
    return content


def _set(target: dict[str, Any], item: str) -> None:
    path, sign, text = item.partition("=")
    keys = path.split(".")
    if not sign or not all(keys):
        raise click.BadParameter(f"{item!r} is not KEY=VALUE or A.B=VALUE", param_hint="--set")
    for key in keys[:-1]:
        target = target.setdefault(key, {})
        if not isinstance(target, dict):
            raise click.BadParameter(f"{item!r}: {key!r} already holds a plain value", param_hint="--set")
    target[keys[-1]] = _value(text)


def _value(text: str) -> Any:
    try:
        return _parse(text)
    except ValueError:
        return text


def _parse(text: str) -> Any:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")  # the parser would accept NaN and Infinity

    return json.loads(text, parse_constant=refuse)

"""The named contexts of a user: `$XDG_CONFIG_HOME/noetl/config.json`, or the file NOETL_CONFIG names. It holds
passwords, so nobody but its owner may read it."""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from services.cli.console.exits import CliError
from services.cli.stack import context
from services.cli.stack.context import Context

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NAME_FIX = "letters, digits, _ and -, at most 64"


class Config(Struct, frozen=True):
    current: str = ""
    contexts: dict[str, Context] = {}

    @property
    def in_use(self) -> Context | None:
        return self.contexts.get(self.current)


def path(environ: Mapping[str, str] = os.environ) -> Path:
    if given := environ.get("NOETL_CONFIG"):
        return Path(given)
    base = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config"
    return Path(base) / "noetl" / "config.json"


def load(environ: Mapping[str, str] = os.environ) -> Config:
    """Empty when there is no file."""
    file = path(environ)
    try:
        mode = file.stat().st_mode
        data = file.read_bytes()
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise CliError(f"{file} holds passwords and others may read it: chmod 600 {file}")
    try:
        return msgspec.json.decode(data, type=Config)
    except msgspec.MsgspecError as error:
        raise CliError(f"{file} cannot be used: {error} (mend it, or remove it and add the contexts again)") from None


def save(config: Config, environ: Mapping[str, str] = os.environ) -> None:
    file = path(environ)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        context.write_private(file, config)
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}") from None

"""What `noetlctl up` says when the stack is up: where it is, and what to do next with what is in this folder."""

import json
import shlex
from pathlib import Path

from services.cli.stack import context
from shared.dsl.authoring.revision import path_of
from shared.events import subjects
from shared.events.headers import MESSAGE_ID
from shared.runtime.embedded.stack import Stack

MAX_LOOKED_AT = 200  # files
PLACES = ("*.yaml", "*.yml", "playbooks/*.yaml", "examples/*.yaml")
NEW = "hello"


def text(stack: Stack, file: Path, role: str) -> str:
    home = file.parent
    flag = "" if home == (Path.cwd() / context.DEFAULT_FOLDER).resolve() else f" --context {file}"
    shown = f"noetlctl context show --password{f' {file}' if flag else ''}"
    units = ", ".join(unit.name for unit in stack.units)
    socket = stack.database.socket if stack.database is not None else ""
    begin, path = _next(flag)
    return f"""The stack is up: {units}
  NATS        {stack.server.url}  (user admin; its password: {shown})
  PostgreSQL  role {role} by the socket in {socket}  (its DSN is in {file})
  logs        {home / "logs"}

In another terminal:
{begin}  noetlctl execute {shlex.quote(path)} --wait{flag}
  noetlctl get{flag}

With any NATS client:
  nats -s {stack.server.url} --user admin --password "$({shown})" \\
    pub {subjects.EXECUTE} {shlex.quote(json.dumps({"path": path}))} -H {MESSAGE_ID}:first

Ctrl-C stops it; the data stays in {home}."""


def _next(flag: str) -> tuple[str, str]:
    """The lines that register a playbook of this folder, or a new one; and its path."""
    for file, path in playbooks(Path.cwd()):
        return f"  noetlctl register {shlex.quote(str(file))}{flag}\n", path
    new = f"noetlctl register {NEW}.yaml{flag}"
    return f"  {f'noetlctl init {NEW}':<{len(new)}}  # there is no playbook in this folder yet\n  {new}\n", NEW


def _simplest(file: Path) -> tuple[bool, str]:
    return file.stem != NEW, file.name


def playbooks(folder: Path) -> list[tuple[Path, str]]:
    """Files of it that hold a playbook, with the path that it says; the nearest first."""
    files = [file for place in PLACES for file in sorted(folder.glob(place), key=_simplest)][:MAX_LOOKED_AT]
    found = []
    for file in files:
        try:
            path = path_of(file.read_bytes())
        except OSError:
            continue
        if path:
            found.append((file.relative_to(folder), path))
    return found

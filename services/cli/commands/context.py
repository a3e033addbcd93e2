"""noetlctl context: the stacks a user works with, by name."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, render
from services.cli.console.exits import CliError
from services.cli.stack import context

if TYPE_CHECKING:
    from services.cli.stack.config import Config
    from services.cli.stack.context import Context
    from shared.runtime.service.settings import Settings

HIDDEN = "***"
CREDENTIAL = click.Path(path_type=Path, resolve_path=True, dir_okay=False)
ROLES = ("router", "scheduler", "projector", "pools", "worker", "admin", "client", "gateway")
FILES = {"creds": "nats_creds_file", "nkey": "nats_nkey_file", "ca": "nats_ca_file", "cert": "nats_cert_file",
         "key": "nats_key_file"}
COLUMNS = (
    render.Column("IN USE", lambda row: "*" if row["current"] else "(*)" if row["chosen"] else " "),
    render.Column("NAME", "name"),
    render.Column("URL", "nats_url"),
    render.Column("USER", "user"),
    render.Column("PARTITIONS", "partitions", wide=True),
    render.Column("POSTGRES", "postgres_dsn", wide=True),
)


@click.group("context", epilog="Example: noetlctl context add prod --url nats://nats.example:4222 --user admin "
             "--password-stdin < password")
def command() -> None:
    """Name the stacks you work with, and say which one is in use."""


@command.command("add", epilog="Example: noetlctl context add local --from .noetl/context.json")
@click.argument("name")
@click.option("--url", help="Address of the NATS server.")
@click.option("--user", help="Its user, admin unless given; empty for none.")
@click.option("--password-file", type=click.Path(path_type=Path), help="Holds the password.")
@click.option("--password-stdin", is_flag=True, help="The password is on stdin.")
@click.option("--creds", type=CREDENTIAL, help="Its credentials file (.creds), in place of a user and a password.")
@click.option("--nkey", type=CREDENTIAL, help="The file of its seed, in place of a user and a password.")
@click.option("--ca", type=CREDENTIAL, help="Who has signed the server's certificate.")
@click.option("--cert", type=CREDENTIAL, help="A certificate, for a server that wants one of its clients.")
@click.option("--key", type=CREDENTIAL, help="The key of that certificate.")
@click.option("--tls-first", is_flag=True, help="The server begins with the TLS handshake (handshake_first).")
@click.option("--role", type=click.Choice(ROLES), help="Whose inboxes are heard (admin unless the user "
              "is one of a service).")
@click.option("--postgres-dsn", default="", metavar="DSN|@FILE", help="The read model; @FILE keeps it out of the "
              "list of processes.")
@click.option("--partitions", type=click.IntRange(1, 256), default=context.PARTITIONS, show_default=True,
              help="As the stack has them.")
@click.option("--replicas", type=click.IntRange(1, 5), default=1, show_default=True,
              help="Copies of what is made there.")
@click.option("--placement", default="", metavar="TAG,TAG", help="Tags of the servers on which it is made.")
@click.option("--max-bytes", default="", metavar="NAME=SIZE,…", help="Sizes of streams, such as results=20GiB.")
@click.option("--from", "file", type=click.Path(path_type=Path), help="Take everything from a context file.")
@click.option("--use", "use_it", is_flag=True, help="Use it from now on.")
@render.option()
def add(
    name: str, url: str | None, user: str | None, password_file: Path | None, password_stdin: bool, postgres_dsn: str,
    partitions: int, file: Path | None, use_it: bool, output: str, **rest: Any,
) -> int:
    """Add a context, or change the one of that name. The first one added is the one in use."""
    from services.cli.stack import config

    if not config.NAME.fullmatch(name):
        raise CliError(f"{name!r} is not a name for a context: {config.NAME_FIX}", exits.USAGE)
    if (url is None) == (file is None):
        raise click.UsageError("give --url URL or --from FILE")
    if file is not None:
        added = context.read(file)
    else:
        password, login = _password(password_file, password_stdin), _login(rest)
        known = user if user is not None else "" if rest["creds"] or rest["nkey"] else "admin"
        users = {known: password} if known or password else {}
        added = context.Context(str(url), users, _text(postgres_dsn), partitions, user=known, **login)
        added.settings()  # what it says can be used
    old = config.load()
    current = name if use_it or not old.in_use else old.current
    new = config.Config(current, {**old.contexts, name: added})
    config.save(new)
    _tell(new, name, output, f"{'changed' if name in old.contexts else 'added'} context {name}")
    return exits.OK


@command.command("use", epilog="Example: noetlctl context use prod")
@click.argument("name", shell_complete=context.names)
@render.option()
def use(name: str, output: str) -> int:
    """Talk to this stack where nothing else is said."""
    from services.cli.stack import config

    new = config.Config(name, _known(name).contexts)
    config.save(new)
    _tell(new, name, output, f"using context {name}")
    _warn_if_elsewhere(name)
    return exits.OK


@command.command("list", epilog="Example: noetlctl context list -o json")
@render.option()
def list_(output: str) -> int:
    """List the contexts; * marks the stack that commands go to.

    (*) is the one that `context use` chose, where the environment or .noetl/context.json of this folder says another:
    that one has a line of its own.
    """
    from services.cli.stack import config

    found, used = config.load(), _used()
    rows = [_row(found, name) for name in found.contexts]
    if used is not None and used.name not in found.contexts:
        rows.append(_shown(used.name, used.found.context or _of_settings(used.found.settings), True, False))
    render.rows(rows, COLUMNS, output, "name")
    return exits.OK


@command.command("show", epilog="Example: noetlctl context show prod -o yaml")
@click.argument("name", required=False, shell_complete=context.names)
@click.option("--password", is_flag=True, help="Print the password of its user, and nothing else.")
@render.option()
def show(name: str | None, password: bool, output: str) -> int:
    """Show a context, the one that commands go to unless named; passwords are hidden.

    NAME may be a context file, too.
    """
    if password or (name is not None and Path(name).is_file()):
        found_at = context.locate(Path(name) if name is not None else None)
        if password:
            click.echo(found_at.settings.nats_password)
            return exits.OK
        row = _shown(str(name), found_at.context or _of_settings(found_at.settings), False, False)
    elif name is not None:
        row = _row(_known(name), name)
    else:
        from services.cli.stack import config

        found, used = config.load(), _used()
        if used is None:
            raise CliError("no context is in use: noetlctl context use NAME", exits.NOT_FOUND)
        row = _row(found, used.name) if used.name in found.contexts else _shown(
            used.name, used.found.context or _of_settings(used.found.settings), True, False)
    render.document(row, output, "name", lambda: render.fields(row))
    return exits.OK


@command.command("remove", epilog="Example: noetlctl context remove old")
@click.argument("name", shell_complete=context.names)
@render.option()
def remove(name: str, output: str) -> int:
    """Forget a context; the stack itself is left alone."""
    from services.cli.stack import config

    old = _known(name)
    current = "" if old.current == name else old.current
    config.save(config.Config(current, {each: it for each, it in old.contexts.items() if each != name}))
    _tell(old, name, output, f"removed context {name}")
    return exits.OK


def _known(name: str) -> "Config":
    from services.cli.stack import config

    found = config.load()
    if name not in found.contexts:
        raise CliError(f"no context {name!r} (`noetlctl context list` shows them)", exits.NOT_FOUND)
    return found


def _tell(found: "Config", name: str, output: str, line: str) -> None:
    render.document(_row(found, name), output, "name", lambda: click.echo(line))


def _row(found: "Config", name: str) -> dict[str, Any]:
    used = _used()
    return _shown(name, found.contexts[name], used is not None and used.name == name, name == found.current)


def _shown(name: str, each: "Context", current: bool, chosen: bool) -> dict[str, Any]:
    return {
        "name": name, "current": current, "chosen": chosen, "nats_url": _without_password(each.nats_url),
        "user": each.user, "postgres_dsn": _without_password(each.postgres_dsn), "partitions": each.partitions,
        "pools": list(each.pools), "users": dict.fromkeys(each.users, HIDDEN),
        **{key: getattr(each, key) for key in context.AS_SETTINGS},
    }


def _used() -> "context.Used | None":
    """What commands go to without --context; None when it is nothing, or cannot be read."""
    try:
        return context.used()
    except CliError:
        return None


def _of_settings(settings: "Settings") -> "Context":
    user = settings.nats_user
    more = {key: getattr(settings, key) for key in context.AS_SETTINGS}
    return context.Context(settings.nats_url, {user: ""} if user else {}, settings.postgres_dsn, settings.partitions,
                           user=user, **more)


def _warn_if_elsewhere(name: str) -> None:
    used = _used()
    if used is not None and used.name != name:
        click.echo(f"warning: commands here go to {used.name} all the same (noetlctl context list); --context {name} "
                   "goes to it", err=True)


def _without_password(url: str) -> str:
    import re

    return re.sub(r"(?<=password=)[^\s&]+", HIDDEN, re.sub(r"(://[^:@/]*:).*@", rf"\1{HIDDEN}@", url))


def _login(given: dict[str, Any]) -> dict[str, Any]:
    """The options of `add` as a context has them."""
    files = {key: str(given[option]) for option, key in FILES.items() if given[option]}
    lists = {key: tuple(filter(None, given[key].split(","))) for key in ("placement", "max_bytes")}
    rest = {"nats_tls_first": given["tls_first"], "role": given["role"] or "", "replicas": given["replicas"]}
    return {**files, **lists, **rest}


def _password(file: Path | None, stdin: bool) -> str:
    if file is not None and stdin:
        raise click.UsageError("give --password-file or --password-stdin, not both")
    if stdin:
        return sys.stdin.readline().rstrip("\r\n")
    return _text(f"@{file}") if file is not None else ""


def _text(given: str) -> str:
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise CliError(f"cannot read {given[1:]}: {error.strerror}", exits.USAGE) from None

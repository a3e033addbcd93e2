"""noetlctl admin nats-auth: who may do what on a broker that `noetlctl up` has not started."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, render
from services.cli.stack import context

if TYPE_CHECKING:
    from collections.abc import Callable

    from services.cli.admin.nats_auth import Wish
    from shared.runtime.broker_auth.keyring import Keyring, Mode

OUT = click.option("--out", "place", type=click.Path(path_type=Path, file_okay=False), default=Path(".noetl/nats-auth"),
                   show_default=True, help="Folder of the keyring and of all files that follow from it.")
APPLY = click.option("--apply", is_flag=True, help="Tell the broker of the context at once, as the user `system`.")
MAX_SECRET = 245  # characters: a Secret may have 253, and one of ours is called NAME-keyring


def _secret_name(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    if name is not None and not (re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name) and len(name) <= MAX_SECRET):
        raise click.BadParameter(f"{name!r} is no name of a Secret: small letters, digits, - and ., at most "
                                 f"{MAX_SECRET}")
    return name


SECRET = click.option("--kubernetes-secret", "secret", metavar="NAME", callback=_secret_name,
                      help="Print the files as Secrets NAME and NAME-keyring, for `kubectl apply -f -`.")
COLUMNS = (render.Column("USER", "user"), render.Column("ACCOUNT", "account"), render.Column("PUBLIC KEY", "key"),
           render.Column("FILE", "file", wide=True))


@click.group("nats-auth", epilog="Example: noetlctl admin nats-auth ensure --mode jwt --out keys")
def command() -> None:
    """Accounts, users and their keys for a NATS of your own.

    Modes: `accounts` (part of the server's configuration, with public keys alone), `jwt` (signed by an operator; a new
    pool needs no reload) and `shared` (one user for everybody; nothing is kept from anybody).
    """


@command.command("ensure", epilog="Examples: noetlctl admin nats-auth ensure --mode jwt --pool etl --out keys   "
                 "noetlctl admin nats-auth ensure --out keys --apply --follow")
@click.option("--mode", type=click.Choice(("accounts", "jwt", "shared")), envvar="NOETL_BROKER_AUTH",
              help="How the broker is told; of a new folder: accounts unless given (NOETL_BROKER_AUTH).")
@click.option("--pool", "pools", multiple=True, metavar="NAME",
              help="A pool that has an account; may be repeated (NOETL_POOLS).")
@click.option("--without", multiple=True, metavar="NAME", help="A pool that has none any more; may be repeated.")
@click.option("--partitions", type=click.IntRange(1, 4096), envvar="NOETL_PARTITIONS",
              help="Event streams, as many as the services are told (NOETL_PARTITIONS).")
@click.option("--resolver-dir", "resolver", metavar="DIR",
              help="Folder of a server in mode jwt, for accounts that it is sent; /data/resolver unless given.")
@OUT
@click.option("--keyring", "given", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Begin with this keyring if it is there, such as that of a mounted Secret.")
@SECRET
@APPLY
@click.option("--follow", is_flag=True, help="Go on, as pools come and go, until it is stopped.")
@render.option("table", "json", "yaml")
@context.option
def ensure(
    mode: "Mode | None", pools: tuple[str, ...], without: tuple[str, ...], partitions: int | None, resolver: str | None,
    place: Path, given: Path | None, secret: str | None, apply: bool, follow: bool, output: str,
    context_file: Path | None,
) -> int:  # fmt: skip
    """Make the keys and files that are missing; those that are there stay.

    Files of users are for NOETL_NATS_CREDS_FILE (mode jwt) or NOETL_NATS_NKEY_FILE, readable by their owner alone.
    The servers include `server.conf`, which holds no secret. Run again, it changes nothing.
    """
    from services.cli.admin import nats_auth
    from services.cli.console import run_async

    if follow and not apply:
        raise click.UsageError("--follow tells the broker: give --apply too")
    named = pools or tuple(filter(None, os.environ.get("NOETL_POOLS", "").split(",")))
    wish = nats_auth.Wish(mode=mode, pools=named, without=without, partitions=partitions, resolver=resolver)
    known = nats_auth.first(place, given)
    if (known.mode if known else mode) == "shared":
        click.echo(f"warning: {nats_auth.WARNING}", err=True)
    if known is None or not apply or given is not None:
        keyring, changed = nats_auth.stored(place, given, lambda before: nats_auth.wanted(before, wish))
        if not apply:
            return _show(place, keyring, {"changed": changed, "applied": False}, secret, output)
    return run_async.run(_apply(place, wish, secret, follow, output, context_file))


async def _apply(
    place: Path, wish: "Wish", secret: str | None, follow: bool, output: str, context_file: Path | None
) -> int:
    import asyncio

    from services.cli.admin import nats_auth

    broker, known = context.find(context_file), nats_auth.read(place)
    fresh = nats_auth.wanted(known, wish).pools
    keyring = await nats_auth.told(place, broker, lambda before: nats_auth.wanted(before, wish), fresh)
    _show(place, keyring, {"changed": keyring != known, "applied": True}, secret, output)
    if follow:
        accounts = nats_auth.followed(place, broker, lambda: click.echo("pools have changed", err=True))
        await accounts.keep(asyncio.Event())
    return exits.OK


def _show(place: Path, keyring: "Keyring", more: dict[str, Any], secret: str | None, output: str) -> int:
    from services.cli.admin import nats_auth

    if secret:
        import yaml

        click.echo(yaml.safe_dump_all(nats_auth.manifests(keyring, secret), sort_keys=False, width=4096), nl=False)
        return exits.OK
    found = {"mode": keyring.mode, "folder": str(place), "pools": list(keyring.pools), **more,
             "users": nats_auth.rows(place, keyring)}
    render.document(found, output, "folder", lambda: _table(found))
    return exits.OK


def _table(found: dict[str, Any]) -> None:
    render.rows(found["users"], COLUMNS, "wide", "user")
    what = "changed" if found["changed"] else "as it was"
    applied = "the broker knows it" if found["applied"] else f"servers include {found['folder']}/server.conf"
    click.echo(f"{found['folder']} ({found['mode']}): {what}; {applied}", err=True)


@command.command("show", epilog="Examples: noetlctl admin nats-auth show --out keys   "
                 "noetlctl admin nats-auth show worker_default --out keys")
@click.argument("user", required=False)
@OUT
@render.option()
def show(user: str | None, place: Path, output: str) -> int:
    """Who there is, and what one of them may do. Nothing of it is secret."""
    from services.cli.admin import nats_auth

    keyring = nats_auth.read(place)
    if user is None:
        render.rows(nats_auth.rows(place, keyring), COLUMNS, output, "user")
    else:
        found = nats_auth.rights(place, keyring, user)
        render.document(found, output, "user", lambda: render.fields(found))
    return exits.OK


@command.command("rotate", epilog="Examples: noetlctl admin nats-auth rotate router --out keys --apply   "
                 "noetlctl admin nats-auth rotate --pool etl --out keys --apply")
@click.argument("user", default="")
@click.option("--pool", default="", metavar="NAME", help="The workers of a pool, instead of a user.")
@OUT
@SECRET
@APPLY
@render.option("table", "json", "yaml")
@context.option
def rotate(
    user: str, pool: str, place: Path, secret: str | None, apply: bool, output: str, context_file: Path | None
) -> int:
    """Give a user another key. The broker closes the connections of the old one as soon as it is told.

    Whoever uses the file reads it again when it connects again, so services continue with the new key.
    """
    import time

    from services.cli.admin import nats_auth
    from services.cli.console import run_async

    name, now = nats_auth.user_of(user, pool), int(time.time())
    nats_auth.read(place)

    def how(before: "Keyring | None") -> "Keyring":
        assert before is not None, "it was read"
        return nats_auth.another_key(before, name, now)

    if apply:
        return run_async.run(_rotate(place, how, secret, output, context_file))
    keyring, changed = nats_auth.stored(place, None, how)
    return _show(place, keyring, {"changed": changed, "applied": False}, secret, output)


async def _rotate(
    place: Path, how: "Callable[[Keyring], Keyring]", secret: str | None, output: str, context_file: Path | None
) -> int:
    from services.cli.admin import nats_auth

    keyring = await nats_auth.told(place, context.find(context_file), how)
    return _show(place, keyring, {"changed": True, "applied": True}, secret, output)

"""The configuration of a server, whole or as a part that is included, as JSON, which the server reads too."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from shared.bus import permissions, topology
from shared.bus.permissions import Account, Export, Grant, Import

PING_S, PINGS = "5s", 2  # a client that has gone without a word is noticed after 15 s, not after six minutes
Proof = Callable[[str], dict[str, str]]  # how a user shows who it is, by its name


class Cluster(Struct, frozen=True):
    """One of several servers: where it listens for the others, and where those listen."""

    name: str
    port: int
    others: tuple[str, ...]  # host:port of each


class Server(Struct, frozen=True, kw_only=True):
    """A broker to be started. `max_file_store` in bytes, 0: any; it is the account's limit too, which services can
    see. `sync_always`: nothing is acknowledged before it is on the disk."""

    port: int
    store_dir: str
    host: str = "127.0.0.1"
    monitor_port: int = 0
    name: str = ""
    sync_always: bool = False
    max_file_store: int = 0
    cluster: Cluster | None = None


def server_config(
    server: Server, pools: Sequence[str], passwords: Mapping[str, str], partitions: int = topology.PARTITIONS
) -> str:
    """`passwords` has one for every control user and pool worker."""
    permissions.check_pools(pools)
    jetstream: dict[str, Any] = {"store_dir": server.store_dir}
    if server.sync_always:
        jetstream["sync_interval"] = "always"
    if server.max_file_store:
        jetstream["max_file_store"] = server.max_file_store
    config: dict[str, Any] = {
        "server_name": server.name or f"noetl-{server.port}",
        "host": server.host,
        "port": server.port,
        "ping_interval": PING_S,
        "ping_max": PINGS,
        "jetstream": jetstream,
        **accounts_part(
            permissions.accounts(pools, partitions), lambda user: {"user": user, "password": passwords[user]}
        ),
    }
    if server.max_file_store:
        config["accounts"][permissions.ACCOUNT]["jetstream"] = {"max_file": server.max_file_store}
    if server.monitor_port:
        config["http"] = f"{server.host}:{server.monitor_port}"
    if (cluster := server.cluster) is not None:
        routes = [f"nats-route://{other}" for other in cluster.others]
        config["cluster"] = {"name": cluster.name, "listen": f"{server.host}:{cluster.port}", "routes": routes}
    return as_text(config)


def accounts_part(accounts: Sequence[Account], proof: Proof) -> dict[str, Any]:
    """The accounts of a configuration and their users."""
    return {
        "system_account": permissions.SYSTEM,
        "accounts": {account.name: _account(account, proof) for account in accounts},
    }


def as_text(config: Mapping[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(config), indent=2).decode()


def _account(account: Account, proof: Proof) -> dict[str, Any]:
    parts = {
        "users": [proof(name) | _permissions(grant) for name, grant in account.users.items()],
        "exports": list(map(_export, account.exports)),
        "imports": list(map(_import, account.imports)),
    }
    jetstream = {"jetstream": "enabled"} if account.jetstream else {}
    return jetstream | {name: part for name, part in parts.items() if part}


def _permissions(grant: Grant | None) -> dict[str, Any]:
    if grant is None:
        return {}
    publish, subscribe = _lists(grant.publish, grant.publish_not), _lists(grant.subscribe, grant.subscribe_not)
    return {"permissions": {"publish": publish, "subscribe": subscribe}}


def _lists(allowed: Sequence[str], denied: Sequence[str]) -> dict[str, list[str]]:
    return {"allow": list(allowed)} | ({"deny": list(denied)} if denied else {})


def _export(export: Export) -> dict[str, Any]:
    many = {"response": "stream", "threshold": f"{permissions.REPLY_S}s"} if export.many else {}
    return {export.kind: export.subject, "accounts": list(export.accounts), **many}


def _import(wanted: Import) -> dict[str, Any]:
    renamed = {"to": wanted.to} if wanted.to else {}
    return {wanted.kind: {"account": wanted.account, "subject": wanted.subject}, **renamed}

"""The broker's configuration: who may do what is a permission, not a convention.

Control services share the account NOETL, each as a user with an allow-list. A pool's workers live in
an account of their own without JetStream, which imports exactly the services they need: inside one
account, a reply subject or a header would get around an allow-list.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shared.bus import topology
from shared.bus.kv import changes_of, stream_of
from shared.errors import Refused
from shared.events import subjects

CONTROL = ("router", "scheduler", "projector", "pools", "admin")
ACCOUNT = "NOETL"
# An answer that is empty and has no header ends a run of answers: a queue message must not be empty.
# The broker remembers where the answers of a request go until none came for so long (2 minutes if not
# said, about 1 KB each). A waiting pull has a heartbeat every 5 s.
REPLY_S = "15s"
_POOL = re.compile(r"[A-Za-z0-9_-]{1,64}")


def worker_user(pool: str) -> str:
    return f"worker_{pool}"


def inbox_prefix(user: str) -> str:
    """Each user reads only its own inboxes: no one sees another's answers."""
    return f"_INBOX_{user}"


def server_config(
    port: int,
    store_dir: str,
    pools: Sequence[str],
    passwords: Mapping[str, str],
    *,
    partitions: int = topology.PARTITIONS,
    sync_always: bool = False,
    host: str = "127.0.0.1",
    monitor_port: int = 0,
    name: str = "",
) -> str:
    """As JSON, which the server reads too. `passwords` has one for every control user and pool worker."""
    for pool in pools:
        if not _POOL.fullmatch(pool):
            raise Refused(f"not a pool name: {pool!r}")
    jetstream: dict[str, Any] = {"store_dir": store_dir}
    if sync_always:
        jetstream["sync_interval"] = "always"
    config: dict[str, Any] = {
        "server_name": name or f"noetl-{port}",
        "host": host,
        "port": port,
        "jetstream": jetstream,
        "accounts": {
            ACCOUNT: _control_account(pools, passwords, partitions),
            **{f"POOL_{pool}": _pool_account(pool, passwords, partitions) for pool in pools},
        },
    }
    if monitor_port:
        config["http"] = f"{host}:{monitor_port}"
    return msgspec.json.format(msgspec.json.encode(config), indent=2).decode()


def _control_account(pools: Sequence[str], passwords: Mapping[str, str], partitions: int) -> dict[str, Any]:
    allowed = {
        "router": _router(partitions),
        "scheduler": _scheduler(partitions),
        "projector": _projector(partitions),
    }
    users = [
        _user(name, passwords[name], publish, [f"{inbox_prefix(name)}.>", f"{subjects.MEMBERS}.>"])
        for name, publish in allowed.items()
    ]
    _hear_triggers(users[list(allowed).index("scheduler")]["permissions"])
    users.append(_user("pools", passwords["pools"], _pools(), [f"{inbox_prefix('pools')}.>"]))
    users.append({"user": "admin", "password": passwords["admin"]})
    exports: dict[str, dict[str, Any]] = {}
    for pool in pools:
        for subject, many in _services(pool, partitions):
            export = exports.setdefault(subject, {"service": subject, "accounts": []})
            export["accounts"].append(f"POOL_{pool}")
            if many:
                export |= {"response": "stream", "threshold": REPLY_S}
    words = [{"stream": subjects.stops(pool), "accounts": [f"POOL_{pool}"]} for pool in pools]
    return {"jetstream": "enabled", "users": users, "exports": [*exports.values(), *words]}


def _pool_account(pool: str, passwords: Mapping[str, str], partitions: int) -> dict[str, Any]:
    services = [subject for subject, _ in _services(pool, partitions)]
    name = worker_user(pool)
    return {
        "users": [_user(name, passwords[name], services, [f"{inbox_prefix(name)}.>", subjects.stops(pool)])],
        "imports": [
            *({"service": {"account": ACCOUNT, "subject": subject}} for subject in services),
            {"stream": {"account": ACCOUNT, "subject": subjects.stops(pool)}},
        ],
    }


def _user(name: str, password: str, publish: list[str], subscribe: list[str]) -> dict[str, Any]:
    return {
        "user": name,
        "password": password,
        "permissions": {"publish": {"allow": publish}, "subscribe": {"allow": subscribe}},
    }


def _services(pool: str, partitions: int) -> list[tuple[str, bool]]:
    """What a pool's account may reach, and whether an answer is many messages."""
    commands = topology.COMMANDS
    readable = [
        *map(topology.events_stream, range(partitions)),
        topology.RESULTS,
        *(stream_of(bucket) for bucket in (topology.PLAYBOOKS, topology.KEYCHAIN)),
    ]
    return [
        (f"$JS.API.CONSUMER.MSG.NEXT.{commands}.{pool}", True),
        (f"$JS.ACK.{commands}.{pool}.>", False),
        (f"{subjects.EVENTS}.*.*.worker", False),
        (f"{subjects.EVENTS}.*.*.iteration", False),
        (f"{subjects.EVENTS}.*.*.waiting", False),
        (f"{subjects.RESULTS}.>", False),
        (f"$KV.{topology.WORKERS}.{pool}.>", False),
        *((f"$JS.API.DIRECT.GET.{stream}", True) for stream in readable),
        *((f"$JS.API.DIRECT.GET.{stream}.>", False) for stream in readable),
    ]


def _router(partitions: int) -> list[str]:
    return [
        f"{subjects.EVENTS}.*.*.router",
        f"{subjects.EVENTS}.*.*.control",
        *_shared_writes(),
        "_INBOX.>",  # the answer to a request, at the inbox its sender named
        f"{inbox_prefix('admin')}.>",
        f"$JS.API.STREAM.INFO.{topology.REQUESTS}",  # its creation time goes into derived ids
        f"$JS.API.CONSUMER.MSG.NEXT.{topology.REQUESTS}.router",
        f"$JS.ACK.{topology.REQUESTS}.router.>",
        *_follows(partitions),
        f"$KV.{topology.CTX}.>",
        *_reads(topology.PLAYBOOKS, topology.CURSORS, topology.CTX, topology.POOLS),
    ]


def _scheduler(partitions: int) -> list[str]:
    commands = topology.COMMANDS
    return [
        f"{subjects.EVENTS}.*.*.scheduler",
        f"{subjects.EVENTS}.*.*.control",  # places that runs have got
        f"{subjects.COMMANDS}.>",
        subjects.EXECUTE,  # children
        subjects.CANCEL,
        f"{subjects.STOPS}.*",
        f"$JS.API.STREAM.PURGE.{commands}",  # the commands of runs that are to stop
        *_shared_writes(),
        f"$JS.API.STREAM.CREATE.{commands}",  # the memory queue is made again after a server restart
        f"$JS.API.STREAM.INFO.{commands}",
        f"$JS.API.CONSUMER.CREATE.{commands}.>",
        f"$JS.API.CONSUMER.INFO.{commands}.*",
        *_follows(partitions),
        f"$KV.{topology.LOOPS}.>",
        f"$KV.{topology.LIMITS}.>",
        *_reads(topology.PLAYBOOKS, topology.CURSORS, topology.LOOPS, topology.WORKERS, topology.LIMITS),
        f"$KV.{topology.SCHEDULES}.>",
        *_follow(stream_of(topology.SCHEDULES)),
        *_follow(stream_of(topology.POOLS)),  # which consumers the queue has
        "$JS.API.CONSUMER.MSG.NEXT.*.*",  # triggers on streams of others, by consumers an admin made
        "$JS.ACK.*.*.>",
    ]


def _hear_triggers(permissions: dict[str, Any]) -> None:
    """The scheduler hears any subject of the account, since triggers may name any, but nothing of the
    engine's and the broker's own that is not its business; it takes from no queue of the engine."""
    buckets = (topology.PLAYBOOKS, topology.CURSORS, topology.WORKERS, topology.KEYCHAIN, topology.CTX, topology.LOOPS)
    queues = (topology.COMMANDS, topology.REQUESTS, topology.DEAD, *map(stream_of, buckets))
    permissions["publish"]["deny"] = [
        subject for queue in queues for subject in (f"$JS.API.CONSUMER.MSG.NEXT.{queue}.*", f"$JS.ACK.{queue}.>")
    ]
    permissions["subscribe"] = {
        "allow": [">"],
        "deny": [
            *(changes_of(bucket) for bucket in (*buckets, topology.POOLS) if bucket != topology.WORKERS),
            "$JS.>", "$SYS.>", "_R_.>", "_INBOX.>",
            *(f"{inbox_prefix(user)}.>" for user in CONTROL if user != "scheduler"),
        ],
    }


def _projector(partitions: int) -> list[str]:
    buckets = (topology.PLAYBOOKS, topology.CURSORS, topology.WORKERS)
    return [f"{subjects.MEMBERS}.>", *_follows(partitions), *_reads(*buckets), *_follow(topology.DEAD)]


def _pools() -> list[str]:
    """What people want is theirs to say: it writes where a pool stands, and its lease."""
    commands = topology.COMMANDS
    return [
        f"$KV.{topology.POOLS}.status.*",
        f"$KV.{topology.POOLS}.leader",
        *_follow(stream_of(topology.POOLS)),
        *_reads(topology.WORKERS),
        f"$JS.API.CONSUMER.INFO.{commands}.*",
        f"$JS.API.CONSUMER.PAUSE.{commands}.*",
    ]


def _shared_writes() -> list[str]:
    return [
        f"{subjects.DEAD}.>",
        f"{subjects.MEMBERS}.>",
        f"{subjects.RESULTS}.>",
        f"$KV.{topology.CURSORS}.>",
    ]


def _follows(partitions: int) -> list[str]:
    streams = [*map(topology.events_stream, range(partitions)), topology.RESULTS]
    return [subject for stream in streams for subject in _follow(stream)]


def _follow(stream: str) -> list[str]:
    consumer = [f"$JS.API.CONSUMER.{verb}.{stream}.*" for verb in ("CREATE", "MSG.NEXT", "DELETE")]
    return [*consumer, *_read(stream)]


def _reads(*buckets: str) -> list[str]:
    return [subject for bucket in buckets for subject in _read(stream_of(bucket))]


def _read(stream: str) -> list[str]:
    get = f"$JS.API.DIRECT.GET.{stream}"
    return [f"$JS.API.STREAM.INFO.{stream}", get, f"{get}.>"]

"""The broker's configuration: who may do what is a permission, not a convention.

Router and scheduler, which decide, share the account NOETL, each as a user with an allow-list. The projector, the pools
service and each pool's workers live in accounts of their own without JetStream, which import exactly the services they
need: inside one account, a reply subject, a header or a consumer that is sent elsewhere would get around an allow-list.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from shared.bus import api, topology
from shared.bus.kv import changes_of, stream_of
from shared.errors import Refused
from shared.events import subjects
from shared.events.subjects import inbox_prefix

CONTROL = ("router", "scheduler", "projector", "pools", "admin")
ACCOUNT = "NOETL"
APART = {"projector": "PROJECTOR", "pools": "POOLS"}  # services that decide nothing, and their accounts
SYSTEM = "SYS"  # without users: nobody can log in to it
DISCONNECTS = "$SYS.ACCOUNT.*.DISCONNECT"
# An answer that is empty and has no header ends a run of answers: a queue message must not be empty.
# The broker remembers where the answers of a request go until none came for so long (2 minutes if not
# said, about 1 KB each). A waiting pull has a heartbeat every 5 s.
REPLY_S = "15s"
PING_S, PINGS = "5s", 2  # a client that has gone without a word is noticed after 15 s, not after six minutes
# What time it is. In an account without JetStream the server answers under this name itself, that it has none: so a
# pool has another for it.
TIME = api.subject(api.stream_info(topology.TIMEKEEPER))
WANTED = subjects.key(topology.POOLS, "pool.*")  # what people want of pools, heard by the pools service as it is said
DEMAND = subjects.demand("*")  # what schedulers hold back, which the pools service adds up
_POOL = re.compile(r"[A-Za-z0-9_-]{1,64}")


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


def worker_user(pool: str) -> str:
    return f"worker_{pool}"


def server_config(
    server: Server, pools: Sequence[str], passwords: Mapping[str, str], partitions: int = topology.PARTITIONS
) -> str:
    """As JSON, which the server reads too. `passwords` has one for every control user and pool worker."""
    for pool in pools:
        if not _POOL.fullmatch(pool):
            raise Refused(f"not a pool name: {pool!r}")
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
        "system_account": SYSTEM,
        "accounts": {
            SYSTEM: {"exports": [{"stream": DISCONNECTS, "accounts": [ACCOUNT]}]},
            ACCOUNT: _control_account(pools, passwords, partitions)
            | ({"jetstream": {"max_file": server.max_file_store}} if server.max_file_store else {}),
            **{APART[name]: _apart(name, passwords, partitions) for name in APART},
            **{f"POOL_{pool}": _pool_account(pool, passwords, partitions) for pool in pools},
        },
    }
    if server.monitor_port:
        config["http"] = f"{server.host}:{server.monitor_port}"
    if (cluster := server.cluster) is not None:
        routes = [f"nats-route://{other}" for other in cluster.others]
        config["cluster"] = {"name": cluster.name, "listen": f"{server.host}:{cluster.port}", "routes": routes}
    return msgspec.json.format(msgspec.json.encode(config), indent=2).decode()


def _control_account(pools: Sequence[str], passwords: Mapping[str, str], partitions: int) -> dict[str, Any]:
    allowed = {"router": _router(partitions), "scheduler": _scheduler(partitions)}
    users = [
        _user(name, passwords[name], publish, [f"{inbox_prefix(name)}.>", f"{subjects.MEMBERS}.>"])
        for name, publish in allowed.items()
    ]
    users[list(allowed).index("router")]["permissions"]["subscribe"]["allow"].append(f"{subjects.API}.*")
    _hear_triggers(users[list(allowed).index("scheduler")]["permissions"])
    users.append({"user": "admin", "password": passwords["admin"]})
    offered = {f"POOL_{pool}": _services(pool, partitions) for pool in pools}
    offered |= {account: _services_apart(name, partitions) for name, account in APART.items()}
    exports: dict[str, dict[str, Any]] = {}
    for account, services in offered.items():
        for subject, many in (*services, (TIME, False)):
            export = exports.setdefault(subject, {"service": subject, "accounts": []})
            export["accounts"].append(account)
            if many:
                export |= {"response": "stream", "threshold": REPLY_S}
    words = [{"stream": subjects.stops(pool), "accounts": [f"POOL_{pool}"]} for pool in pools]
    words += [{"stream": subject, "accounts": [APART["pools"]]} for subject in (WANTED, DEMAND)]
    # Schedulers hear at once that the connection of a worker is over.
    closed = {"stream": {"account": SYSTEM, "subject": DISCONNECTS}, "to": subjects.closed("$1")}
    return {"jetstream": "enabled", "users": users, "exports": [*exports.values(), *words], "imports": [closed]}


def _pool_account(pool: str, passwords: Mapping[str, str], partitions: int) -> dict[str, Any]:
    name = worker_user(pool)
    among = subjects.claims(pool), subjects.named(name, "*")  # said and heard inside this account alone
    return _account(name, passwords[name], _services(pool, partitions), heard=(subjects.stops(pool),), among=among)


def _apart(name: str, passwords: Mapping[str, str], partitions: int) -> dict[str, Any]:
    heard = (WANTED, DEMAND) if name == "pools" else ()
    among = (subjects.named(name, "*"),)
    return _account(name, passwords[name], _services_apart(name, partitions), heard=heard, among=among)


def _account(
    name: str, password: str, offered: Sequence[tuple[str, bool]], *, heard: Sequence[str], among: Sequence[str] = ()
) -> dict[str, Any]:
    """With one user, who may ask exactly the services it is offered, and hear what is meant for it."""
    services = [subject for subject, _ in offered]
    return {
        "users": [
            _user(name, password, [*services, TIME, subjects.TIME, *among], [f"{inbox_prefix(name)}.>", *heard, *among])
        ],
        "imports": [
            *({"service": {"account": ACCOUNT, "subject": subject}} for subject in services),
            {"service": {"account": ACCOUNT, "subject": TIME}, "to": subjects.TIME},
            *({"stream": {"account": ACCOUNT, "subject": subject}} for subject in heard),
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
        (api.subject(api.next_message(commands, pool)), True),
        (api.acks(commands, pool), False),
        *((f"{subjects.EVENTS}.*.*.{writer}.{pool}", False) for writer in sorted(subjects.LEASED)),
        (f"{subjects.RESULTS}.*.*.*", False),
        (f"{subjects.RESULTS}.*.*.*.{pool}", False),
        (subjects.key(topology.WORKERS, f"{pool}.*"), False),
        *_gets(readable),
    ]


def _gets(streams: Sequence[str]) -> list[tuple[str, bool]]:
    return [
        *((api.subject(api.direct_get(stream)), True) for stream in streams),
        *((api.subject(api.direct_get(stream, ">")), False) for stream in streams),
        *((api.subject(api.message_get(stream)), False) for stream in streams),  # of its leader
    ]


def _router(partitions: int) -> list[str]:
    return [
        f"{subjects.EVENTS}.*.*.router",
        f"{subjects.EVENTS}.*.*.control",
        *_shared_writes(),
        f"{subjects.INBOX}.>",  # the answer to a request, at the inbox its sender named
        f"{inbox_prefix('admin')}.>",
        *subjects.ASKED,  # what it was asked by request and reply
        api.subject(api.INFO),  # how much room the store has
        api.subject(api.stream_info(topology.REQUESTS)),  # its creation time goes into derived ids
        api.subject(api.stream_info(stream_of(topology.KEYCHAIN))),  # which names there are, and no value
        api.subject(api.consumer_info(topology.COMMANDS, "*")),  # which pools have a queue
        api.subject(api.consumer_info(topology.REQUESTS, "router")),
        api.subject(api.consumer_create(topology.REQUESTS, "router")),  # when it is lost
        api.subject(api.next_message(topology.REQUESTS, "router")),
        api.acks(topology.REQUESTS, "router"),
        *_follows(partitions),
        subjects.key(topology.CTX),
        subjects.key(topology.ASIDE, "*.router"),
        *_reads(topology.PLAYBOOKS, topology.CURSORS, topology.CTX, topology.POOLS, topology.ASIDE),
    ]


def _scheduler(partitions: int) -> list[str]:
    commands = topology.COMMANDS
    return [
        f"{subjects.EVENTS}.*.*.scheduler",
        f"{subjects.EVENTS}.*.*.control",  # places that runs have got
        f"{subjects.COMMANDS}.>",
        subjects.CHILD,
        subjects.DERIVED,  # of schedules and triggers
        f"{subjects.ENDS}.>",
        *_read(topology.ENDS),  # whether an end was told
        subjects.CANCEL,
        f"{subjects.STOPS}.*",
        DEMAND,
        api.subject(api.message_get(commands)),  # the commands of runs that are to stop, and lost ones
        api.subject(api.message_delete(commands)),
        *_shared_writes(),
        api.subject(api.stream_create(commands)),  # the memory queue is made again after a server restart
        api.subject(api.stream_delete(commands)),  # when a consumer of it is lost
        api.subject(api.stream_info(commands)),
        api.subject(api.consumer_create(commands, ">")),
        api.subject(api.consumer_info(commands, "*")),
        *_follows(partitions),
        subjects.key(topology.LOOPS),
        subjects.key(topology.LIMITS),
        subjects.key(topology.ASIDE, "*.scheduler"),
        *_reads(
            topology.PLAYBOOKS, topology.CURSORS, topology.LOOPS, topology.WORKERS, topology.LIMITS, topology.ASIDE
        ),
        subjects.key(topology.SCHEDULES),
        *_follow(stream_of(topology.SCHEDULES)),
        *_follow(stream_of(topology.POOLS)),  # which consumers the queue has
        api.subject(api.next_message("*", "*")),  # triggers on streams of others, by consumers an admin made
        api.acks("*", "*"),
    ]


def _hear_triggers(permissions: dict[str, Any]) -> None:
    """The scheduler hears any subject of the account, since triggers may name any, but nothing of the
    engine's and the broker's own that is not its business; it takes from no queue of the engine."""
    buckets = (
        topology.PLAYBOOKS, topology.CURSORS, topology.WORKERS, topology.KEYCHAIN, topology.CTX, topology.LOOPS,
        topology.ASIDE,
    )
    queues = (topology.COMMANDS, topology.REQUESTS, topology.DEAD, *map(stream_of, buckets))
    permissions["publish"]["deny"] = [
        subject for queue in queues for subject in (api.subject(api.next_message(queue, "*")), api.acks(queue))
    ]
    permissions["subscribe"] = {
        "allow": [">"],
        "deny": [
            *(changes_of(bucket) for bucket in (*buckets, topology.POOLS) if bucket != topology.WORKERS),
            api.EVERYTHING, "$SYS.>", "_R_.>", f"{subjects.INBOX}.>",
            *(f"{inbox_prefix(user)}.>" for user in CONTROL if user != "scheduler"),
        ],
    }


def _services_apart(name: str, partitions: int) -> list[tuple[str, bool]]:
    return _projector(partitions) if name == "projector" else _pools()


def _projector(partitions: int) -> list[tuple[str, bool]]:
    """It reads by direct gets: whoever may make a consumer may have it sent to any subject."""
    return [(api.subject(api.direct_get(stream)), True) for stream in map(topology.events_stream, range(partitions))]


def _pools() -> list[tuple[str, bool]]:
    """What people want is theirs to say: this user writes the state of a pool, and its lease."""
    commands, read = topology.COMMANDS, [stream_of(bucket) for bucket in (topology.POOLS, topology.WORKERS)]
    return [
        (subjects.key(topology.POOLS, "status.*"), False),
        (subjects.key(topology.POOLS, "leader"), False),
        (f"{subjects.ENDED}.*", False),  # workers it saw the end of
        (api.subject(api.consumer_info(commands, "*")), False),
        (api.subject(api.consumer_pause(commands, "*")), False),
        *_gets(read),
    ]


def _shared_writes() -> list[str]:
    return [
        f"{subjects.DEAD}.>",
        api.subject(api.direct_get(topology.DEAD)),  # how many there are of one owner, and the oldest of them goes
        api.subject(api.message_delete(topology.DEAD)),
        f"{subjects.MEMBERS}.>",
        f"{subjects.RESULTS}.>",
        subjects.key(topology.CURSORS),
    ]


def _follows(partitions: int) -> list[str]:
    streams = [*map(topology.events_stream, range(partitions)), topology.RESULTS]
    return [subject for stream in streams for subject in _follow(stream)]


def _follow(stream: str) -> list[str]:
    consumer = [ask(stream, "*") for ask in (api.consumer_create, api.next_message, api.consumer_delete)]
    return [*map(api.subject, consumer), *_read(stream)]


def _reads(*buckets: str) -> list[str]:
    return [subject for bucket in buckets for subject in _read(stream_of(bucket))]


def _read(stream: str) -> list[str]:
    asked = api.stream_info(stream), api.message_get(stream), api.direct_get(stream), api.direct_get(stream, ">")
    return [*map(api.subject, asked)]

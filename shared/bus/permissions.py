"""Who may do what is a permission, not a convention: the rules, whichever way a broker is told of them
(`shared/runtime/broker_auth/`).

Router and scheduler, which decide, share the account NOETL, each as a user with an allow-list. The projector, the pools
service, clients and each pool's workers live in accounts of their own without JetStream, which import exactly the
services they need: inside one account, a reply subject, a header or a consumer that is sent elsewhere would get around
an allow-list.
"""

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from shared.bus import api, topology
from shared.bus.kv import changes_of, stream_of
from shared.bus.subject import covers
from shared.errors import Refused
from shared.events import subjects
from shared.events.subjects import inbox_prefix

CONTROL = ("router", "scheduler", "projector", "pools", "admin", "client")
ACCOUNT = "NOETL"
# Those that decide nothing, and their accounts.
APART = {"projector": "PROJECTOR", "pools": "POOLS", "client": "CLIENT"}
SYSTEM = "SYS"
SYSTEM_USER = "system"  # of whoever keeps the accounts of a broker; `noetlctl up` has none: it signals its own server
SHARED_USER = "noetl"  # of everybody, where they share one
DISCONNECTS = "$SYS.ACCOUNT.*.DISCONNECT"
# What whoever keeps the accounts asks of the broker: to take an account that the operator has signed, which servers
# there are, and that one of them reads its configuration again.
CLAIMS_UPDATE = "$SYS.REQ.CLAIMS.UPDATE"
SERVERS = "$SYS.REQ.SERVER.PING"
# An answer that is empty and has no header ends a run of answers: a queue message must not be empty.
# The broker remembers where the answers of a request go until none came for so long (2 minutes if not
# said, about 1 KB each). A waiting pull has a heartbeat every 5 s.
REPLY_S = 15
# What time it is. In an account without JetStream the server answers under this name itself, that it has none: so a
# pool has another for it.
TIME = api.subject(api.stream_info(topology.TIMEKEEPER))
WANTED = subjects.key(topology.POOLS, "pool.*")  # what people want of pools, heard by the pools service as it is said
DEMAND = subjects.demand("*")  # what schedulers hold back, which the pools service adds up
# What those who live apart hear of the control account.
HEARD = {"pools": (WANTED, DEMAND), "client": (f"{subjects.ENDS}.>",)}
ANY = "*"  # in place of a pool's name: every pool there may be
_POOL = re.compile(r"[A-Za-z0-9_-]{1,64}")
Kind = Literal["service", "stream"]


class Grant(Struct, frozen=True):
    """What a user may publish and hear: what is allowed without what is denied."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    publish_not: tuple[str, ...] = ()
    subscribe_not: tuple[str, ...] = ()


class Export(Struct, frozen=True):
    kind: Kind
    subject: str
    accounts: tuple[str, ...]  # that may import it
    many: bool = False  # an answer is many messages


class Import(Struct, frozen=True):
    kind: Kind
    account: str
    subject: str
    to: str = ""  # its name here; the same unless given


class Account(Struct, frozen=True):
    name: str
    users: dict[str, Grant | None]  # None: everything in the account
    exports: tuple[Export, ...] = ()
    imports: tuple[Import, ...] = ()
    jetstream: bool = False


# Schedulers hear at once that the connection of a worker is over.
CLOSED = Import("stream", SYSTEM, DISCONNECTS, subjects.closed("$1"))


def worker_user(pool: str) -> str:
    return f"worker_{pool}"


def pool_account(pool: str) -> str:
    return f"POOL_{pool}"


def reload_of(server: str) -> str:
    return f"$SYS.REQ.SERVER.{server}.RELOAD"


def check_pools(pools: Sequence[str]) -> None:
    for pool in pools:
        if not _POOL.fullmatch(pool):
            raise Refused(f"not a pool name: {pool!r}")


def accounts(pools: Sequence[str], partitions: int = topology.PARTITIONS, *, system: bool = False) -> list[Account]:
    """All of a broker; `system`: the account of the broker itself has a user too, who may give others theirs."""
    return [
        _system(system),
        _control(pools, partitions),
        *(_apart(name, partitions) for name in APART),
        *(_pool(pool, partitions) for pool in pools),
    ]


def shared_accounts() -> list[Account]:
    """One user who may do everything: nothing is kept from anybody who has its key."""
    return [_system(False), Account(ACCOUNT, {SHARED_USER: None}, imports=(CLOSED,), jetstream=True)]


def _system(has_user: bool) -> Account:
    asked = (CLAIMS_UPDATE, SERVERS, reload_of("*"))
    grant = Grant(asked, (f"{inbox_prefix(SYSTEM_USER)}.>",))
    return Account(SYSTEM, {SYSTEM_USER: grant} if has_user else {}, (Export("stream", DISCONNECTS, (ACCOUNT,)),))


def _control(pools: Sequence[str], partitions: int) -> Account:
    users: dict[str, Grant | None] = {
        "router": _grant("router", _router(partitions), [f"{subjects.MEMBERS}.>", f"{subjects.API}.*"]),
        "scheduler": _hearing_triggers(_scheduler(partitions)),
        "admin": None,
    }
    offered = {pool_account(pool): _services(pool, partitions) for pool in pools}
    offered |= {account: _services_apart(name, partitions) for name, account in APART.items()}
    exports: dict[str, Export] = {}
    for account, services in offered.items():
        timed = [] if account == APART["client"] else [(TIME, False)]
        for subject, many in (*services, *timed):
            known = exports.get(subject, Export("service", subject, ()))
            exports[subject] = Export("service", subject, (*known.accounts, account), known.many or many)
    words = [
        *(Export("stream", subjects.stops(pool), (pool_account(pool),)) for pool in pools),
        *(Export("stream", subject, (APART[name],)) for name, heard in HEARD.items() for subject in heard),
    ]
    return Account(ACCOUNT, users, (*exports.values(), *words), (CLOSED,), jetstream=True)


def _pool(pool: str, partitions: int) -> Account:
    name = worker_user(pool)
    among = subjects.claims(pool), subjects.named(name, "*")  # said and heard inside this account alone
    services, heard = _services(pool, partitions), (subjects.stops(pool),)
    return _outside(pool_account(pool), name, services, heard=heard, among=among)


def _apart(name: str, partitions: int) -> Account:
    services, heard = _services_apart(name, partitions), HEARD.get(name, ())
    if name == "client":  # no service of ours: it needs neither the time nor a name
        return _outside(APART[name], name, services, heard=heard, timed=False)
    return _outside(APART[name], name, services, heard=heard, among=(subjects.named(name, "*"),))


def _outside(
    account: str, name: str, offered: Sequence[tuple[str, bool]], *, heard: Sequence[str], among: Sequence[str] = (),
    timed: bool = True,
) -> Account:
    """With one user, who may ask exactly the services it is offered, and hear what is meant for it."""
    services = [subject for subject, _ in offered]
    clock = [TIME, subjects.TIME] if timed else []
    imports = [
        *(Import("service", ACCOUNT, subject) for subject in services),
        *([Import("service", ACCOUNT, TIME, subjects.TIME)] if timed else []),
        *(Import("stream", ACCOUNT, subject) for subject in heard),
    ]
    grant = _grant(name, [*services, *clock, *among], [*heard, *among])
    return Account(account, {name: grant}, imports=tuple(imports))


def _grant(name: str, publish: Sequence[str], heard: Sequence[str]) -> Grant:
    return Grant(_needed(publish), (f"{inbox_prefix(name)}.>", *heard))


def _needed(lines: Sequence[str]) -> tuple[str, ...]:
    """Without those that another line says already: each one that is left can be missed."""
    wide = [line for line in lines if "*" in line or line[-1] == ">"]
    return tuple(line for line in dict.fromkeys(lines) if not any(covers(each, line) for each in wide if each != line))


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
        f"{subjects.REPLIES}.>",  # the answer to a request from another account, where the broker waits for it
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
        *_reads(
            topology.PLAYBOOKS, topology.CURSORS, topology.CTX, topology.POOLS, topology.ASIDE, topology.SETTINGS),
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


def _hearing_triggers(publish: list[str]) -> Grant:
    """The scheduler hears any subject of the account, since triggers may name any, but nothing of the
    engine's and the broker's own that is not its business; it takes from no queue of the engine."""
    buckets = (
        topology.PLAYBOOKS, topology.CURSORS, topology.WORKERS, topology.KEYCHAIN, topology.CTX, topology.LOOPS,
        topology.ASIDE,
    )
    queues = (topology.COMMANDS, topology.REQUESTS, topology.DEAD, *map(stream_of, buckets))
    taken = [subject for queue in queues for subject in (api.subject(api.next_message(queue, "*")), api.acks(queue))]
    private = [
        *(changes_of(bucket) for bucket in (*buckets, topology.POOLS) if bucket != topology.WORKERS),
        api.EVERYTHING, "$SYS.>", f"{subjects.REPLIES}.>", f"{subjects.INBOX}.>",
        *(f"{inbox_prefix(user)}.>" for user in CONTROL if user != "scheduler"),
    ]
    return Grant(_needed(publish), (">",), tuple(taken), _needed(private))


def _services_apart(name: str, partitions: int) -> list[tuple[str, bool]]:
    match name:
        case "projector":
            return _projector(partitions)
        case "client":
            return [(f"{subjects.API}.*", False)]
    return _pools()


def _projector(partitions: int) -> list[tuple[str, bool]]:
    """It reads by direct gets: whoever may make a consumer may have it sent to any subject. It removes results of
    executions that ended long ago, and nothing else (docs/adr/0058)."""
    return [
        *((api.subject(api.direct_get(stream)), True) for stream in map(topology.events_stream, range(partitions))),
        *_gets([stream_of(topology.SETTINGS)]),
        (api.subject(api.stream_info(stream_of(topology.SETTINGS))), False),  # whether there are any
        (api.subject(api.stream_info(topology.RESULTS)), False),  # of which executions there are some
        (api.subject(api.stream_purge(topology.RESULTS)), False),
    ]


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

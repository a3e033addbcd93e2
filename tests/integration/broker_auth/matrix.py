"""Who may do what, as a table: a row for every user, a column for every subject that anybody's list has a line for, and
a few that nobody's has. What a cell should be is read from the rules; what it is, a real server says."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from shared.bus import permissions
from shared.bus.permissions import ACCOUNT, SYSTEM, Account, Grant, Import
from shared.bus.subject import covers
from shared.events import subjects
from shared.events.subjects import inbox_prefix
from tests.support.servers.keyed_nats import BareClient, KeyedNats

Action = Literal["publish", "hear"]
ARRIVES_S = 5.0
LOST_S = 0.3
NOBODYS = (
    "noetl.events.0.x1.y1.worker", "noetl.events.0.x1.router.default", "noetl.events.0.x1.worker", "noetl.requests.x1",
    "$KV.noetl_keychain.x1", "$KV.noetl_pools.pool.x1", "$JS.API.STREAM.PURGE.NOETL_EVENTS_0",
    "$JS.API.STREAM.DELETE.NOETL_EVENTS_0", "$JS.API.STREAM.MSG.DELETE.NOETL_EVENTS_0", "$JS.API.STREAM.CREATE.X1",
    "$JS.API.CONSUMER.CREATE.KV_noetl_keychain.x1", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.CLAIMS.DELETE", "x1",
)  # fmt: skip
UNHEARD = (">", "noetl.>", "$JS.>", "$SYS.>", "_INBOX.>", "_R_.>")


class Cell(NamedTuple):
    user: str
    action: Action
    subject: str

    def __str__(self) -> str:
        return f"{self.user} {self.action} {self.subject}"


def sample(pattern: str) -> str:
    """A subject of a pattern, in words that no other one has."""
    return pattern.replace("*", "x1").replace(">", "x1.y1")


def cells(accounts: Sequence[Account]) -> list[Cell]:
    grants = [grant for account in accounts for grant in account.users.values() if grant is not None]
    said = _columns(line for grant in grants for line in (*grant.publish, *grant.publish_not))
    heard = _columns(line for grant in grants for line in (*grant.subscribe, *grant.subscribe_not) if line != ">")
    users = [user for account in accounts for user in account.users]
    return [
        *(Cell(user, "publish", subject) for user in users for subject in dict.fromkeys((*said, *NOBODYS))),
        *(Cell(user, "hear", subject) for user in users for subject in dict.fromkeys((*heard, *UNHEARD))),
    ]


def _columns(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(sample, lines)))


def is_allowed(accounts: Sequence[Account], cell: Cell) -> bool:
    account = _account(accounts, cell.user)
    grant = account.users[cell.user]
    if account.name == ACCOUNT and grant is None:
        return True
    assert isinstance(grant, Grant)
    lists = {"publish": (grant.publish, grant.publish_not), "hear": (grant.subscribe, grant.subscribe_not)}
    allowed, denied = (any(covers(line, cell.subject) for line in each) for each in lists[cell.action])
    return allowed and not denied


def _account(accounts: Sequence[Account], user: str) -> Account:
    return next(account for account in accounts if user in account.users)


class Table:
    """Tries cells on a server that has no streams: whatever is asked of JetStream is heard, and changes nothing."""

    def __init__(self, server: KeyedNats, accounts: Sequence[Account]) -> None:
        self._server, self._accounts = server, accounts
        self._clients: dict[str, BareClient] = {}
        self._count = 0
        self.admin = self._connected("admin")
        self.admin.subscribe(">")

    def is_so(self, cell: Cell, *, within_s: float = ARRIVES_S) -> bool:
        """Whether it does work: what is said arrives where it is meant to, and what is heard is heard."""
        self._count += 1
        client, data = self._connected(cell.user), b"cell %d" % self._count
        for each in self._clients.values():
            each.heard.clear()
        if cell.action == "publish":
            return self._arrives(client, cell, data, within_s)
        error = client.subscribe(cell.subject)
        try:
            assert not error or "Permissions Violation for Subscription" in error, error
            return not error and self._is_heard(client, cell, data, within_s)
        finally:
            client.unsubscribe()

    def _arrives(self, client: BareClient, cell: Cell, data: bytes, within_s: float) -> bool:
        inbox = f"{inbox_prefix(cell.user)}.answers.{self._count}"
        error = client.publish(cell.subject, data, inbox)
        assert not error or "Permissions Violation for Publish" in error, error
        if error:
            return False
        account = _account(self._accounts, cell.user)
        route = next((each for each in account.imports if each.kind == "service" and _is_of(each, cell.subject)), None)
        if account.name == ACCOUNT or route is not None:
            there = cell.subject if route is None or not route.to else route.subject
            return self.admin.until(there, data, within_s)
        if account.name == SYSTEM or cell.subject == permissions.TIME:
            return True  # the server's own to answer
        peer = self._connected(cell.user, among=cell.subject)
        client.publish(cell.subject, data)
        return peer.until(cell.subject, data, within_s)

    def _is_heard(self, client: BareClient, cell: Cell, data: bytes, within_s: float) -> bool:
        """A pattern is heard by a subject of it."""
        account, subject = _account(self._accounts, cell.user), sample(cell.subject)
        if subject.startswith(f"{inbox_prefix(cell.user)}."):
            return self._is_answered(client, account, subject, data, within_s)
        imported = any(each.kind == "stream" and _is_of(each, subject) for each in account.imports)
        (self.admin if imported or account.name == ACCOUNT else client).publish(subject, data)
        return client.until(subject, data, within_s)

    def _is_answered(self, client: BareClient, account: Account, inbox: str, data: bytes, within_s: float) -> bool:
        if account.name == ACCOUNT:
            self.admin.publish(inbox, data)
            return client.until(inbox, data, within_s)
        if account.name == SYSTEM:
            client.publish(permissions.SERVERS, b"", inbox)
            return client.until(inbox, b'"server"', within_s)
        service = next(each for each in account.imports if each.kind == "service")
        asked = sample(service.to or service.subject)
        client.publish(asked, data, inbox)
        if not self.admin.until(sample(service.subject), data, within_s):
            return False
        question = next(heard for heard in self.admin.heard if heard.data == data)
        self.admin.publish(question.reply, b"answer to " + data)
        return client.until(inbox, b"answer to " + data, within_s)

    def _connected(self, user: str, among: str = "") -> BareClient:
        """`among`: another one of the same user, who hears that."""
        name = f"{user} {among}"
        if name not in self._clients:
            self._clients[name] = self._server.client(user)
            if among:
                self._clients[name].subscribe(among)
        return self._clients[name]

    def hears_ends_of_connections(self, within_s: float = ARRIVES_S) -> bool:
        """What NOETL imports of the broker's own account."""
        self.admin.heard.clear()
        self._server.client("projector").close()
        return self.admin.until(subjects.closed("*"), b"client_disconnect", within_s)


def _is_of(wanted: Import, subject: str) -> bool:
    return covers(wanted.to or wanted.subject, subject)

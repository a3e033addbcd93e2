"""Accounts as an operator signs them: what `permissions` says, as tokens.

1. *A role's allow-list stands in the token of its account*, as the template of a signing key that signs users of this
   role alone. The token of a user holds no permission: a change of the rules is one push, and nobody needs another
   credentials file. It is short too: a client sends it in one line, of which a server reads 4 KB.
2. *What is exported needs an activation*, a token by which the exporter says which account may import which subject. So
   NOETL offers what any pool may need (`permissions.ANY`), and a new pool changes nothing but its own account.
3. *Who is taken away is revoked* in its account's token, by its public key: the server closes its connections.
4. *What says the same is not signed again.* Files and accounts change only when something has changed.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from shared.bus import permissions
from shared.bus.permissions import Account, Export, Grant, Import
from shared.runtime.broker_auth.keyring import OPERATOR, Keyring, account_key, accounts_of, role_key, user_key
from shared.runtime.broker_auth.tokens import Claims, claims_of, renewed

NO_LIMIT = -1
EVERYONE = "*"  # among the revoked
NAME = "noetl"
_LIMITS = {"subs": NO_LIMIT, "data": NO_LIMIT, "payload": NO_LIMIT}
_ACCOUNT_LIMITS = {**_LIMITS, "imports": NO_LIMIT, "exports": NO_LIMIT, "conn": NO_LIMIT, "leaf": 0, "wildcards": True}
_JETSTREAM = {"mem_storage": NO_LIMIT, "disk_storage": NO_LIMIT, "streams": NO_LIMIT, "consumer": NO_LIMIT}
Activated = tuple[str, str, str]  # subject, kind and the exporter's public key
_SECOND = 1_000_000_000


def signed_accounts(keyring: Keyring) -> list[Account]:
    """Those of the keyring, where NOETL offers its services to pools that are still to come."""
    general = accounts_of(keyring.mode, (permissions.ANY,), keyring.partitions)
    offering = next(account for account in general if account.name == permissions.ACCOUNT)
    return [offering if account.name == offering.name else account for account in keyring.accounts]


def signed(keyring: Keyring, accounts: Sequence[Account], now: int) -> Keyring:
    """With the tokens of the operator, the accounts and their users; it has all keys already."""
    tokens: dict[str, str] = {}

    def sign(name: str, claims: Claims, by: str) -> None:
        tokens[name] = _renewed(keyring, keyring.tokens.get(name, ""), claims, by, now)

    sign(OPERATOR, _operator(keyring), OPERATOR)
    for account in accounts:
        sign(account_key(account.name), _account(account, keyring, now), OPERATOR)
        for user in account.users:
            sign(user_key(user), _user(user, account.name, keyring), role_key(user))
    return replace(keyring, tokens=tokens)


def _renewed(keyring: Keyring, old: str, claims: Claims, by: str, now: int) -> str:
    return renewed(old, claims, keyring.seed(by), keyring.public(by), now)


def closed(keyring: Keyring, now: int) -> Keyring:
    """Accounts that are over get a last token, which nobody may use and which reaches nothing. It is kept: a server
    that was away has the one before it."""
    wanted = {account_key(account.name) for account in keyring.accounts}
    over = [name for name in keyring.seeds if name.startswith(account_key("")) and name not in wanted]
    last = {keyring.public(name): _closed(keyring, name, now) for name in over}
    return replace(keyring, over={**keyring.over, **last})


def _closed(keyring: Keyring, name: str, now: int) -> str:
    said = {"type": "account", "limits": _ACCOUNT_LIMITS, "revocations": {EVERYONE: now}}
    claims = _claims(name.removeprefix(account_key("")), keyring.public(name), said)
    return _renewed(keyring, keyring.tokens.get(name, ""), claims, OPERATOR, now)


def _operator(keyring: Keyring) -> Claims:
    system = keyring.public(account_key(permissions.SYSTEM))
    return _claims(NAME, keyring.public(OPERATOR), {"type": "operator", "system_account": system})


def _account(account: Account, keyring: Keyring, now: int) -> Claims:
    revoked = keyring.revoked.get(account.name, {})
    said = {
        "type": "account",
        "limits": {**_ACCOUNT_LIMITS, **(_JETSTREAM if account.jetstream else {})},
        "signing_keys": [_role(user, grant, keyring) for user, grant in account.users.items()],
        "exports": list(map(_export, account.exports)),
        "imports": _imports(account, keyring, now),
    } | ({"revocations": revoked} if revoked else {})
    return _claims(account.name, keyring.public(account_key(account.name)), said)


def _role(user: str, grant: Grant | None, keyring: Keyring) -> Claims:
    template: Claims = {**_LIMITS}
    if grant is not None:
        template["pub"] = _lists(grant.publish, grant.publish_not)
        template["sub"] = _lists(grant.subscribe, grant.subscribe_not)
    return {"kind": "user_scope", "key": keyring.public(role_key(user)), "role": user, "template": template}


def _lists(allowed: Sequence[str], denied: Sequence[str]) -> dict[str, list[str]]:
    return {"allow": list(allowed)} | ({"deny": list(denied)} if denied else {})


def _export(export: Export) -> Claims:
    many = {"response_type": "Stream", "response_threshold": permissions.REPLY_S * _SECOND} if export.many else {}
    return {"subject": export.subject, "type": export.kind, "token_req": True, **many}


def _imports(account: Account, keyring: Keyring, now: int) -> list[Claims]:
    """Each with its activation: that of the account's last token, if it has one for the same subject of the same
    exporter."""
    name = account_key(account.name)
    last = claims_of(keyring.tokens[name])["nats"].get("imports", []) if name in keyring.tokens else []
    known = {(each["subject"], each["type"], each["account"]): each["token"] for each in last}
    return [_import(wanted, keyring.public(name), keyring, known, now) for wanted in account.imports]


def _import(wanted: Import, importer: str, keyring: Keyring, known: Mapping[Activated, str], now: int) -> Claims:
    exporter = account_key(wanted.account)
    public = keyring.public(exporter)
    token = known.get((wanted.subject, wanted.kind, public))
    if token is None:
        said = {"type": "activation", "subject": wanted.subject, "kind": wanted.kind, "version": 2}
        token = _renewed(keyring, "", {"sub": importer, "nats": said}, exporter, now)
    named = {"subject": wanted.subject, "type": wanted.kind, "account": public, "token": token}
    return named | ({"local_subject": wanted.to} if wanted.to else {})


def _user(user: str, account: str, keyring: Keyring) -> Claims:
    """Signed by its role's key, whose template says what it may do."""
    issuer = keyring.public(account_key(account))
    return _claims(user, keyring.public(user_key(user)), {"type": "user", "issuer_account": issuer})


def _claims(name: str, subject: str, said: Claims) -> Claims:
    return {"name": name, "sub": subject, "nats": {**said, "version": 2}}

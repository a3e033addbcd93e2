"""What a keyring comes to: the part of a server's configuration that is public, and a file for each user."""

from shared.bus import permissions
from shared.runtime.broker_auth import operator, server_config
from shared.runtime.broker_auth.keyring import OPERATOR, Keyring, account_key, completed, user_key
from shared.runtime.broker_auth.tokens import credentials

SERVER_FILE = "server.conf"
RESOLVER_SYNC = "10s"  # how often servers of a cluster compare the accounts they have: who was away may be behind


def ready(keyring: Keyring, now: int) -> Keyring:
    """With all keys and tokens that its users need."""
    if keyring.mode != "jwt":
        return completed(keyring)
    whole = completed(operator.closed(keyring, now))
    return operator.signed(whole, operator.signed_accounts(whole), now)


def server_part(keyring: Keyring) -> str:
    """To be included in the configuration of each server. Public keys and signed tokens, and nothing that is secret."""
    if keyring.mode == "jwt":
        return _operator_part(keyring)
    proof = server_config.accounts_part(keyring.accounts, lambda user: {"nkey": keyring.public(user_key(user))})
    return server_config.as_text(proof)


def account_tokens(keyring: Keyring) -> dict[str, str]:
    """By the public key of the account. Those that offer something come before those that import it."""
    names = [account_key(account.name) for account in keyring.accounts]
    return {keyring.public(name): keyring.tokens[name] for name in names} | keyring.over


def _operator_part(keyring: Keyring) -> str:
    return server_config.as_text({
        "operator": keyring.tokens[OPERATOR],
        "system_account": keyring.public(account_key(permissions.SYSTEM)),
        "resolver": {"type": "full", "dir": keyring.resolver, "allow_delete": False, "interval": RESOLVER_SYNC},
        "resolver_preload": account_tokens(keyring),
    })


def user_file(keyring: Keyring, user: str) -> str:
    """The name of the file by which a user shows who it is."""
    return f"{user}.creds" if keyring.mode == "jwt" else f"{user}.nk"


def user_files(keyring: Keyring) -> dict[str, str]:
    return {user_file(keyring, user): _proof(keyring, user) for user in keyring.users}


def _proof(keyring: Keyring, user: str) -> str:
    name = user_key(user)
    if keyring.mode == "jwt":
        return credentials(keyring.tokens[name], keyring.seed(name))
    return f"{keyring.seed(name)}\n"

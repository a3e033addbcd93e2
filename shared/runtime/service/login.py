"""What the settings say of logging in to the broker, and which of them contradict each other."""

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from msgspec.structs import replace

from shared.bus.permissions import CONTROL, worker_user
from shared.events.subjects import inbox_prefix
from shared.runtime.service.secrets import variable

if TYPE_CHECKING:
    from shared.bus.login.files import LoginFiles
    from shared.runtime.service.settings import Role, Settings

SCHEMES = ("nats", "tls", "ws", "wss")
FILES = ("nats_creds_file", "nats_nkey_file", "nats_ca_file", "nats_cert_file", "nats_key_file")
WHO = ("nats_creds_file", "nats_nkey_file", "nats_user")  # each says who one is


def wrong(settings: "Settings", name: Callable[[str], str] = variable) -> str:
    """The first of them that cannot be used, or two that do not go together, by name; empty when all is well."""
    given = {field for field in (*FILES, "nats_user", "nats_password") if getattr(settings, field)}
    found = _address(settings.nats_url, name("nats_url"))
    if found:
        return found
    in_url = any(urlparse(one.strip()).username for one in settings.nats_url.split(","))
    who = [name(field) for field in WHO if field in given]
    if len(who) > 1:
        return f"{who[0]} and {who[1]} both say who this is: leave one of them out"
    for field in ("nats_creds_file", "nats_nkey_file"):
        if field in given and "nats_password" in given:
            return f"{name(field)} and {name('nats_password')} do not go together: leave one of them out"
        if field in given and in_url:
            return f"{name(field)} and the user in {name('nats_url')} both say who this is: leave one of them out"
    if "nats_password" in given and "nats_user" not in given and not in_url:
        return f"{name('nats_password')} is set and {name('nats_user')} is not: whose password is it?"
    for one, other in (("nats_cert_file", "nats_key_file"), ("nats_key_file", "nats_cert_file")):
        if one in given and other not in given:
            return f"{name(one)} needs {name(other)}"
    return ""


def _address(url: str, name: str) -> str:
    for one in url.split(","):
        try:
            parsed = urlparse(one.strip())
            fine = parsed.scheme in SCHEMES and parsed.hostname and (parsed.port is None or parsed.port > 0)
        except ValueError:
            fine = False
        if not fine:
            bare = one.strip().rpartition("@")[2]
            return f"{name}: {bare[:200]!r} is not an address such as nats://host:4222 or tls://host:4222"
    return ""


def unusable(settings: "Settings") -> str:
    """What is wrong with the files that are named; empty when they can be used now."""
    if not any(getattr(settings, field) for field in FILES):
        return ""  # the client library takes a while to import
    from shared.bus.login.files import BadLogin

    try:
        files(settings).check()
    except BadLogin as error:
        return str(error)
    return ""


def files(settings: "Settings") -> "LoginFiles":
    from shared.bus.login.files import LoginFiles

    creds, nkey, ca, cert, key = (getattr(settings, field) for field in FILES)
    return LoginFiles(creds=creds, nkey=nkey, ca=ca, cert=cert, key=key, tls_first=settings.nats_tls_first)


def trusted(settings: "Settings") -> "LoginFiles":
    """For another user of the same broker."""
    return replace(files(settings), creds="", nkey="")


def inbox(settings: "Settings") -> str:
    """Where answers come: each role hears its own alone. Without a role, that of the user's name."""
    if settings.role == "worker":
        return inbox_prefix(worker_user(settings.pool))
    return inbox_prefix(settings.role or user(settings))


def user(settings: "Settings") -> str:
    named = [urlparse(one.strip()).username for one in settings.nats_url.split(",")]
    return settings.nats_user or next((one for one in named if one), "")


def of_person(settings: "Settings") -> "Role":
    """The role of someone at a terminal who does not say: an administrator, unless the user is one of a service."""
    name = user(settings)
    return settings.role or ("" if name in CONTROL or name.startswith(worker_user("")) else "admin")

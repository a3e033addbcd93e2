"""Which Kubernetes API a call talks to, and as whom: the credential of the task, or the account of the pod that the
worker runs in. A kubeconfig of the worker is never read."""

import base64
import binascii
import os
import re
import ssl
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from shared.tools.base.guard import BadCall

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # where Kubernetes puts a pod's own account
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
CONTEXTS = 32  # certificates of servers kept ready
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\Z")


class Access(Struct, frozen=True):
    """`token` is asked before every request: a pod's own is replaced while it runs."""

    server: str
    namespace: str
    token: Callable[[], str]
    tls: ssl.SSLContext | None

    def at(self, namespace: Any) -> str:
        """The namespace asked for, or the account's own."""
        name = self.namespace if namespace is None else namespace
        if not isinstance(name, str) or not _NAMESPACE.match(name):
            raise BadCall(f"namespace cannot be {str(name)[:60]!r}: small letters, digits and -, at most 63")
        return name


def access(auth: Mapping[str, Any] | None, account: Path = ACCOUNT) -> Access:
    return _given(auth) if auth else _own(account)


def secret_part(auth: Mapping[str, Any] | None) -> dict[str, Any]:
    """What of a credential must not be said; its server and namespace are in every answer."""
    return {name: value for name, value in (auth or {}).items() if name not in ("server", "namespace", "ca")}


def _given(auth: Mapping[str, Any]) -> Access:
    server, token = str(auth.get("server") or "").rstrip("/"), auth.get("token")
    try:
        parts = urlsplit(server)
        known = bool(parts.hostname) and parts.username is None and not parts.query and not parts.fragment
    except ValueError:
        known = False
    if not known or parts.scheme not in ("https", "http"):
        raise BadCall("the credential's server must be the address of a Kubernetes API, https://…")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise BadCall("the credential's server must be https: its token would be sent in the open")
    if not isinstance(token, str) or not token.strip() or not token.isprintable():
        raise BadCall("the credential has no token")
    tls = _context(_pem(auth.get("ca"))) if parts.scheme == "https" else None
    return Access(server, str(auth.get("namespace") or "default"), lambda: token, tls)


def _own(account: Path) -> Access:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (account / "token").is_file():
        raise BadCall("this worker does not run in a Kubernetes cluster: give auth, a credential "
                      "{server, token, ca, namespace}")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = _read(account / "namespace").strip() or "default"
    return Access(server, namespace, lambda: _read(account / "token").strip(), _context(_read(account / "ca.crt")))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        raise BadCall(f"the account of this pod has no readable {path.name}") from None


def _pem(ca: Any) -> str:
    """A certificate as text, or in base64 as a kubeconfig has it."""
    if not ca:
        return ""
    text = str(ca)
    if "-----BEGIN" in text:
        return text
    try:
        return base64.b64decode(text, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise BadCall("the credential's ca is no certificate: PEM, or PEM in base64") from None


@lru_cache(CONTEXTS)
def _context(pem: str) -> ssl.SSLContext:
    """Trusts that certificate alone; without one, those the system trusts."""
    try:
        return ssl.create_default_context(cadata=pem or None)
    except (ssl.SSLError, ValueError):
        raise BadCall("the certificate (ca) of the Kubernetes API cannot be read") from None

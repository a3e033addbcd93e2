"""Who asks Google Cloud Storage and where: addresses of its JSON API, and tokens for service accounts. Whoever
uses it brings its own way to send a request."""

import importlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from yarl import URL

from shared.tools.base.guard import BadCall
from shared.tools.http import data as http_data
from shared.tools.http.data import Request

ENDPOINT = "https://storage.googleapis.com"
API = "/storage/v1"
UPLOAD = "/upload/storage/v1"
READ = "https://www.googleapis.com/auth/devstorage.read_only"
WRITE = "https://www.googleapis.com/auth/devstorage.read_write"
TOKEN_URI = "https://oauth2.googleapis.com/token"
TOKEN_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLAIM_LIFE_S = 600

Fetch = Callable[[Request], Awaitable[bytes]]


class Token(msgspec.Struct, frozen=True):
    """`life_s`: how long it is good for, 0 where nobody said."""

    text: str
    life_s: float = 0.0


def bucket_place(bucket: str) -> str:
    """The objects of a bucket, below the API."""
    return f"/b/{quote(bucket, safe='')}/o"


def object_place(bucket: str, name: str) -> str:
    return f"{bucket_place(bucket)}/{quote(name, safe='')}"


def bearer(token: Token | None) -> dict[str, str]:
    """Without a token the request is anonymous."""
    return {"Authorization": f"Bearer {token.text}"} if token else {}


async def token_for(auth: Mapping[str, Any], scope: str, fetch: Fetch) -> Token | None:
    """The credential's own token, or one for its service account."""
    if not auth:
        return None
    if given := first(auth, ("token", "access_token")):
        return Token(given)
    found = _account(auth)
    body = f"grant_type={quote(TOKEN_GRANT)}&assertion={_assertion(found, scope)}"
    answer = _json(await fetch(Request("POST", _token_url(found), {"Content-Type": http_data.FORM}, body.encode())),
                   "the answer to a service account")
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not token:
        raise BadCall("the service account got no token")
    life = answer.get("expires_in")
    return Token(str(token), float(life) if isinstance(life, (int, float)) else 0.0)


def _account(auth: Mapping[str, Any]) -> Mapping[str, Any]:
    """The service account in a credential."""
    found = auth.get("service_account_json") or auth
    if isinstance(found, str):
        found = _json(found.encode(), "service_account_json")
    if not isinstance(found, Mapping) or not found.get("client_email") or not found.get("private_key"):
        raise BadCall("the credential has no token and no service account (client_email and private_key)")
    return found


def first(auth: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((str(auth[name]) for name in names if auth.get(name)), None)


def library(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise BadCall(f"this credential needs the extra noetl-jetstream[{extra}] on the worker") from None


def _token_url(found: Mapping[str, Any]) -> URL:
    try:
        return URL(str(found.get("token_uri") or TOKEN_URI))
    except ValueError:
        raise BadCall("token_uri of the service account cannot be used") from None


def _assertion(found: Mapping[str, Any], scope: str) -> str:
    """A signed claim that we are this service account (RFC 7523)."""
    crypt, jwt = library("google.auth.crypt", "gcs"), library("google.auth.jwt", "gcs")
    now = int(time.time())
    claim = {"iss": found["client_email"], "scope": scope, "aud": found.get("token_uri") or TOKEN_URI,
             "iat": now, "exp": now + CLAIM_LIFE_S}
    try:
        signer = crypt.RSASigner.from_string(str(found["private_key"]), found.get("private_key_id"))
    except ValueError:
        raise BadCall("the private key of the service account cannot be read") from None
    return str(jwt.encode(signer, claim).decode())


def _json(data: bytes, what: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        raise BadCall(f"{what} is not JSON") from None

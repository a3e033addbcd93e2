"""Where scripts are kept elsewhere: any http address, Google Cloud Storage over its JSON API, S3 and what
speaks its protocol. One GET each; what signs requests is imported when it is needed."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from yarl import URL

from shared.tools.base.contract import Call
from shared.tools.base.guard import BadCall, CallFailed, TooLarge
from shared.tools.base.http_body import whole
from shared.tools.gcs import access as gcs_access
from shared.tools.gcs.access import first, library
from shared.tools.http import data as http_data
from shared.tools.http.data import Request

SCRIPT_LIMIT = 1024 * 1024  # bytes of one script
MAX_REDIRECTS = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})
GCS_REGION = "auto"
REGION = "us-east-1"


class NoScript(CallFailed):
    """The script cannot be had: an outcome of kind `script`."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__("script", message, retryable=retryable)


def check_size(size: int) -> None:
    if size > SCRIPT_LIMIT:
        raise TooLarge(f"the script is over {SCRIPT_LIMIT} bytes")


async def from_http(uri: str, source: Mapping[str, Any], auth: Mapping[str, Any]) -> bytes:
    config = {"url": _address(uri, str(source.get("endpoint") or "")),
              "method": source.get("method"), "headers": source.get("headers")}
    return await _fetch(http_data.prepare(Call(config, {}, auth, "script", 0.0)))


def _address(uri: str, endpoint: str) -> str:
    """The uri, or the endpoint that already ends with it, or the two together."""
    if not endpoint or uri.startswith(("http://", "https://")):
        return uri
    if not uri or endpoint.partition("?")[0].endswith("/" + uri.lstrip("./")):
        return endpoint
    return f"{endpoint.rstrip('/')}/{uri.lstrip('./')}"


async def from_gcs(uri: str, source: Mapping[str, Any], auth: Mapping[str, Any]) -> bytes:
    bucket, name = _object(uri, "gs://")
    base = str(source.get("endpoint") or gcs_access.ENDPOINT).rstrip("/")
    if auth.get("key_id") and auth.get("secret"):  # an HMAC key: the API that speaks S3
        return await _fetch(_signed(f"{base}/{bucket}/{quote(name)}", auth, GCS_REGION))
    token = await gcs_access.token_for(auth, gcs_access.READ, _fetch)
    url = f"{base}{gcs_access.API}{gcs_access.object_place(bucket, name)}?alt=media"
    return await _fetch(Request("GET", URL(url, encoded=True), gcs_access.bearer(token), None))


async def from_s3(uri: str, source: Mapping[str, Any], auth: Mapping[str, Any]) -> bytes:
    bucket, name = _object(uri, "s3://")
    region = str(source.get("region") or auth.get("region") or REGION)
    endpoint = str(source.get("endpoint") or auth.get("endpoint") or "").rstrip("/")
    if endpoint or "." in bucket:  # a dot in a bucket's name breaks the certificate of its own host
        base = f"{endpoint or f'https://s3.{region}.amazonaws.com'}/{bucket}"
    else:
        base = f"https://{bucket}.s3.{region}.amazonaws.com"
    return await _fetch(_signed(f"{base}/{quote(name)}", auth, region))


def _object(uri: str, scheme: str) -> tuple[str, str]:
    bucket, _, name = uri.removeprefix(scheme).partition("/")
    if not uri.startswith(scheme) or not bucket or not name or quote(bucket, safe="") != bucket:
        raise BadCall(f"script.uri must be {scheme}bucket/name")
    return bucket, name


def _signed(url: str, auth: Mapping[str, Any], region: str) -> Request:
    """AWS signature version 4; without a credential the request is anonymous."""
    headers: dict[str, str] = {}
    pair = [first(auth, names) for names in (("access_key_id", "aws_access_key_id", "key_id"),
                                             ("secret_access_key", "aws_secret_access_key", "secret"))]
    if auth and not all(pair):
        raise BadCall("the script's credential has no access_key_id and secret_access_key")
    if auth:
        signer, requests = library("botocore.auth", "s3"), library("botocore.awsrequest", "s3")
        keys = library("botocore.credentials", "s3").Credentials(
            *pair, first(auth, ("session_token", "aws_session_token")))
        request = requests.AWSRequest("GET", url, headers=headers)
        signer.S3SigV4Auth(keys, "s3", region).add_auth(request)
        headers = dict(request.headers.items())
    return Request("GET", URL(url, encoded=True), headers, None, frozenset(name.lower() for name in headers))


async def _fetch(request: Request) -> bytes:
    import aiohttp

    try:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            for _ in range(MAX_REDIRECTS + 1):
                async with session.request(request.method, request.url, headers=request.headers, data=request.body,
                                           allow_redirects=False) as answer:
                    location = answer.headers.get("location")
                    if answer.status not in REDIRECTS or not location:
                        return await _body(request, answer)
                    request = request.redirected(answer.status, http_data.absolute(answer.url, location))
    except (aiohttp.InvalidURL, ValueError):
        raise BadCall("the script's address cannot be used") from None
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise NoScript(f"{request.place}: {reason}", retryable=True) from None
    raise NoScript(f"{request.place}: more than {MAX_REDIRECTS} redirects")


async def _body(request: Request, answer: Any) -> bytes:
    if answer.status >= 400:
        retryable = answer.status in (408, 425, 429) or answer.status >= 500
        raise NoScript(f"{request.place}: {answer.status} {answer.reason or ''}".rstrip(), retryable=retryable)
    return await whole(answer, check_size)

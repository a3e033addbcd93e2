"""`kind: gcs` on a server that keeps objects, and on one that answers as a test wants."""

import base64
import hashlib
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from shared.events.outcome import Outcome
from shared.runtime.embedded.nats_server import free_port
from shared.tools.base.contract import RESULT_LIMIT
from shared.tools.gcs import client as gcs_client
from shared.tools.gcs import data as gcs_data
from tests.support.calls import call, recorded
from tests.support.servers.gcs import BUCKET

Do = Callable[..., Awaitable[Outcome]]
UPLOAD, OBJECT = f"/upload/storage/v1/b/{BUCKET}/o", f"/storage/v1/b/{BUCKET}/o/a"


@pytest.fixture
def name() -> str:
    return f"t{uuid.uuid4().hex}"


@pytest.fixture
def do(opened, gcs: str) -> Do:
    """An operation on the server that keeps objects, unless another endpoint is given."""
    tool = opened("gcs")

    async def one(operation: str, auth: dict[str, Any] | None = None, **config: Any) -> Outcome:
        given = call({"operation": operation, "endpoint": gcs, **config}, auth=auth)
        return recorded(await tool.run(given), given)

    return one


@pytest.fixture
def ask(do: Do, site) -> Do:
    """An operation on gs://my-bucket/a of the server that answers as it is told."""
    async def one(operation: str, **config: Any) -> Outcome:
        return await do(operation, **{"uri": f"gs://{BUCKET}/a", "endpoint": str(site.server.make_url("/")), **config})

    return one


@pytest.mark.parametrize(("data", "encoding", "kind"), [
    ("héllo\r\n\nlast line\n", "text", gcs_data.TEXT), ("", "text", gcs_data.TEXT),
    ({"a": [1, None, "é"]}, "json", gcs_data.JSON), ([], "json", gcs_data.JSON), (5, "json", gcs_data.JSON),
])
async def test_what_is_uploaded_comes_back_as_it_was(do: Do, name: str, data: Any, encoding: str, kind: str) -> None:
    stored = (await do("upload", bucket=BUCKET, object=f"a b/{name}?x#y%", data=data)).result
    assert (stored["status"], stored["content_type"]) == ("success", kind)
    got = (await do("download", uri=f"gs://{BUCKET}/a b/{name}?x#y%")).result
    assert (got["data"], got["encoding"], got["content_type"], got["size"]) == (data, encoding, kind, stored["size"])
    assert got["object"] == f"a b/{name}?x#y%"


async def test_bytes_go_and_come_as_base64(do: Do, name: str) -> None:
    raw = base64.b64encode(bytes(range(256)) * 300 + b"\r\n--").decode()
    assert (await do("put", uri=f"gs://{BUCKET}/{name}", data=raw, encoding="base64")).result["size"] == 76_804
    got = (await do("get", uri=f"gs://{BUCKET}/{name}")).result
    assert (got["data"], got["encoding"]) == (raw, "base64")
    assert (await do("get", uri=f"gs://{BUCKET}/{name}", encoding="text")).error["kind"] == "decode"
    assert (await do("put", uri=f"gs://{BUCKET}/{name}", data="?", encoding="base64")).error["kind"] == "config"


async def test_the_author_says_what_a_content_is(do: Do, name: str) -> None:
    at = {"bucket": BUCKET, "key": name}
    await do("put", **at, value='{"a": 1}', content_type="text/x-mine")
    assert (await do("get", **at)).result["data"] == '{"a": 1}'
    assert (await do("get", **at, **{"as": "json"})).result["data"] == {"a": 1}
    await do("put", **at, content="text", encoding="json")
    assert (await do("get", **at)).result["data"] == "text"
    await do("put", **at, content="no json", content_type="application/json")
    assert (await do("get", **at)).error["kind"] == "decode"
    assert (await do("get", **at, encoding="text")).result["data"] == "no json"


async def test_the_last_upload_is_what_is_there(do: Do, name: str) -> None:
    for data in ("one", "one", "two"):
        assert (await do("put", bucket=BUCKET, path=name, data=data)).status == "ok"
    assert (await do("get", bucket=BUCKET, path=name)).result["data"] == "two"


async def test_a_list_has_the_names_under_a_prefix_and_the_folders(do: Do, name: str) -> None:
    for each in ("a.txt", "b.txt", "sub/c.txt"):
        await do("put", bucket=BUCKET, object=f"{name}/{each}", data=each)
    found = (await do("list", bucket=BUCKET, prefix=f"{name}/")).result
    assert [each["object"] for each in found["objects"]] == [f"{name}/{x}" for x in ("a.txt", "b.txt", "sub/c.txt")]
    assert (found["count"], found["objects"][0]["size"], found["next_page_token"]) == (3, 5, None)
    folder = (await do("list", uri=f"gs://{BUCKET}", prefix=f"{name}/", delimiter="/")).result
    assert (folder["count"], folder["prefixes"]) == (2, [f"{name}/sub/"])
    assert (await do("list", bucket=BUCKET, prefix="nothing begins so")).result["objects"] == []


async def test_copy_exists_and_delete_may_be_repeated(do: Do, name: str) -> None:
    at = {"bucket": BUCKET, "object": name}
    await do("put", **at, data="x")
    for _ in range(2):
        copied = (await do("copy", **at, destination=f"copies/{name}")).result
        assert (copied["uri"], copied["source"]) == (f"gs://{BUCKET}/copies/{name}", f"gs://{BUCKET}/{name}")
    assert (await do("copy", **at, destination=f"gs://{BUCKET}/again/{name}")).status == "ok"
    assert (await do("get", bucket=BUCKET, object=f"again/{name}")).result["data"] == "x"
    assert (await do("exists", **at)).result["exists"] is True
    gone = [(await do("delete", **at)).result for _ in range(2)]
    assert [(each["status"], each["deleted"]) for each in gone] == [("success", True), ("not_found", False)]
    assert (await do("exists", **at)).result["exists"] is False


@pytest.mark.parametrize("config", [
    {"operation": "get", "uri": f"gs://{BUCKET}/nowhere"}, {"operation": "list", "bucket": "no-bucket"},
    {"operation": "put", "uri": "gs://no-bucket/a", "data": "x"},
    {"operation": "copy", "uri": f"gs://{BUCKET}/nowhere", "destination": "b"},
])
async def test_what_is_not_there_has_the_code_not_found(do: Do, config: dict[str, Any]) -> None:
    error = (await do(**config)).error
    assert (error["kind"], error["code"], error["status"], error["retryable"]) == ("gcs", "not_found", 404, False)


@pytest.mark.parametrize("size", [RESULT_LIMIT, RESULT_LIMIT + 1])
async def test_an_object_is_bounded_both_ways(do: Do, ask: Do, site, name: str, size: int) -> None:
    stored = await do("put", bucket=BUCKET, object=name, data="x" * size)
    site.on(OBJECT, lambda: web.Response(text="x" * size))
    got = await ask("get")
    if size > RESULT_LIMIT:
        assert (stored.error["kind"], got.error["kind"]) == ("limit", "limit")
    else:
        assert (stored.error, got.error) == (None, None)
        assert (stored.result["size"], len(got.result["data"])) == (size, size)


@pytest.mark.parametrize(("status", "kind", "code", "retryable"), [
    (400, "gcs", "invalid", False), (401, "auth", "unauthorized", False), (403, "auth", "forbidden", False),
    (404, "gcs", "not_found", False), (409, "gcs", "conflict", False), (412, "gcs", "precondition_failed", False),
    (408, "gcs", "timeout", True), (429, "gcs", "rate_limited", True), (500, "gcs", "unavailable", True),
    (503, "gcs", "unavailable", True), (302, "gcs", "unexpected", False),
])
async def test_a_refusal_says_what_it_is_and_whether_to_retry(
    ask: Do, site, status: int, kind: str, code: str, retryable: bool,
) -> None:
    body = {"error": {"code": status, "message": "because of hush-hush", "errors": [{"reason": "x"}]}}
    site.on(OBJECT, lambda: web.json_response(body, status=status))
    error = (await ask("get", auth={"token": "hush-hush"})).error
    assert (error["kind"], error["code"], error["retryable"], error["status"]) == (kind, code, retryable, status)
    assert error["message"].endswith(f"{status} because of ***")


async def test_too_many_requests_told_as_a_lack_of_rights_may_be_tried_again(ask: Do, site) -> None:
    body = {"error": {"message": "slow down", "errors": [{"reason": "userRateLimitExceeded"}]}}
    site.on(OBJECT, lambda: web.json_response(body, status=403))
    error = (await ask("get")).error
    assert (error["kind"], error["code"], error["retryable"]) == ("gcs", "rate_limited", True)


async def test_a_server_that_is_not_there_may_be_tried_again_and_another_is_told(ask: Do, site) -> None:
    error = (await ask("get", endpoint=f"http://127.0.0.1:{free_port()}")).error
    assert (error["kind"], error["retryable"]) == ("connect", True)
    site.on(OBJECT, lambda: web.Response(text="hello"))
    assert (await ask("exists")).error["code"] == "unexpected"


def _parts(request: dict[str, Any]) -> list[tuple[str, str]]:
    """Heads and contents of an upload."""
    boundary = request["headers"]["content-type"].partition("boundary=")[2]
    parts = request["body"].split(f"--{boundary}")[1:-1]
    return [tuple(part.removeprefix("\r\n").removesuffix("\r\n").split("\r\n\r\n", 1)) for part in parts]


async def test_an_upload_is_one_request_with_its_metadata_and_checksum(ask: Do, site) -> None:
    site.on(UPLOAD, lambda: web.json_response({"size": "5", "generation": "7"}))
    outcome = await ask("put", data="a,b\n1", content_type="text/csv", metadata={"by": "me", "n": 1},
                        auth={"access_token": "abcd"})
    assert (outcome.result["size"], outcome.result["generation"]) == (5, "7")
    (request,) = site.requests
    assert (request["method"], request["headers"]["authorization"]) == ("POST", "Bearer abcd")
    assert parse_qs(request["query"]) == {"uploadType": ["multipart"], "name": ["a"]}
    (_, about), (head, data) = _parts(request)
    assert json.loads(about) == {"name": "a", "contentType": "text/csv", "metadata": {"by": "me", "n": "1"},
                                 "md5Hash": base64.b64encode(hashlib.md5(b"a,b\n1").digest()).decode()}
    assert (head, data) == ("Content-Type: text/csv", "a,b\n1")


async def test_if_absent_takes_its_own_object_for_its_own_and_no_other(ask: Do, site) -> None:
    """As after an answer that was lost: the same call finds what it made itself."""
    made: dict[str, Any] = {}
    site.on(UPLOAD, lambda: web.json_response({}, status=412) if made else web.json_response({"size": "1"}))
    site.on(OBJECT, lambda: web.json_response({"size": "1", "metadata": made}))
    assert (await ask("put", data="x", if_absent=True)).status == "ok"
    assert "ifGenerationMatch=0" in site.requests[0]["query"]
    made.update(json.loads(_parts(site.requests[0])[0][1])["metadata"])
    assert (await ask("put", data="x", if_absent=True)).status == "ok"
    made["noetl-call"] = "of another call"
    error = (await ask("put", data="x", if_absent=True)).error
    assert (error["kind"], error["code"], error["retryable"]) == ("gcs", "precondition_failed", False)
    assert (await ask("put", data="x", if_absent="yes")).error["kind"] == "config"
    made.clear()
    made["a"] = "b"
    assert (await ask("put", data="x")).error["code"] == "precondition_failed"


@pytest.mark.parametrize(("status", "code", "retryable"), [
    (403, "precondition_failed", False), (404, "precondition_failed", False), (503, "unavailable", True),
])
async def test_whose_object_it_is_may_not_be_known(ask: Do, site, status: int, code: str, retryable: bool) -> None:
    site.on(UPLOAD, lambda: web.json_response({}, status=412))
    site.on(OBJECT, lambda: web.json_response({}, status=status))
    error = (await ask("put", data="x", if_absent=True)).error
    assert (error["kind"], error["code"], error["retryable"]) == ("gcs", code, retryable)


async def test_a_list_goes_on_where_the_one_before_ended(ask: Do, site) -> None:
    answer = {"items": [{"name": "a", "size": "1"}], "nextPageToken": "next"}
    site.on(f"/storage/v1/b/{BUCKET}/o", lambda: web.json_response(answer))
    first = (await ask("list", uri=f"gs://{BUCKET}", max_results=1)).result
    await ask("list", uri=f"gs://{BUCKET}", page_token=first["next_page_token"])
    asked = [parse_qs(request["query"]) for request in site.requests]
    assert (asked[0]["maxResults"], "pageToken" in asked[0]) == (["1"], False)
    assert (asked[1]["maxResults"], asked[1]["pageToken"]) == (["1000"], ["next"])


async def test_a_large_copy_takes_several_requests(ask: Do, site) -> None:
    answers = [{"done": False, "rewriteToken": "t"}, {"done": True, "resource": {"size": "9"}}]
    site.on(f"{OBJECT}/rewriteTo/b/other/o/b", lambda: web.json_response(answers[len(site.requests) - 1]))
    assert (await ask("copy", destination="gs://other/b")).result["size"] == 9
    assert [request["query"] for request in site.requests] == ["", "rewriteToken=t"]


# -- credentials


@pytest.fixture
def account(site) -> dict[str, str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                            serialization.NoEncryption()).decode()
    url = site.on("/token", lambda: web.json_response({"access_token": "made", "expires_in": 3600}))
    return {"client_email": "me@example.com", "private_key": pem, "token_uri": url}


def _tokens(site) -> int:
    return sum(request["path"] == "/token" for request in site.requests)


async def test_the_token_of_a_service_account_is_kept_until_it_is_refused(ask: Do, site, account) -> None:
    site.on(OBJECT, lambda: web.Response(text="x"))
    for auth in (account, account, {"service_account_json": json.dumps(account)}):
        assert (await ask("get", auth=auth)).result["data"] == "x"
        assert site.requests[-1]["headers"]["authorization"] == "Bearer made"
    assert _tokens(site) == 2
    claim = parse_qs(site.requests[0]["body"])["assertion"][0].split(".")[1]
    assert json.loads(base64.urlsafe_b64decode(claim + "==="))["scope"].endswith("devstorage.read_write")
    site.on(OBJECT, lambda: web.Response(status=401))
    assert (await ask("get", auth=account)).error["kind"] == "auth"
    await ask("get", auth=account)
    assert _tokens(site) == 3


async def test_a_token_that_ends_soon_is_not_kept_and_kept_ones_are_bounded(
    ask: Do, site, account, monkeypatch,
) -> None:
    site.on(OBJECT, lambda: web.Response(text="x"))
    monkeypatch.setattr(gcs_client, "MAX_TOKENS", 1)
    for auth in (account, {**account, "project_id": "p"}, account):
        await ask("get", auth=auth)
    assert _tokens(site) == 3
    site.on("/token", lambda: web.json_response({"access_token": "made", "expires_in": gcs_client.TOKEN_MARGIN_S}))
    for _ in range(2):
        await ask("get", auth={**account, "project_id": "q"})
    assert _tokens(site) == 5


async def test_a_service_account_that_is_not_believed_is_an_error_of_kind_auth(ask: Do, site, account) -> None:
    said = {"error": "invalid_grant", "error_description": "unknown me@example.com"}
    site.on("/token", lambda: web.json_response(said, status=400))
    error = (await ask("get", auth=account)).error
    assert (error["kind"], error["retryable"]) == ("auth", False)
    assert error["message"].endswith("invalid_grant unknown me@example.com")
    site.on("/token", lambda: web.json_response({}, status=503))
    assert (await ask("get", auth=account)).error["retryable"] is True


@pytest.mark.parametrize("auth", [{"user": "x"}, {"key_id": "k", "secret": "hmac"}, {"service_account_json": "no"},
                                  {"client_email": "x", "private_key": "no key"}])
async def test_a_credential_of_another_kind_is_a_mistake(ask: Do, auth: dict[str, str]) -> None:
    assert (await ask("get", auth=auth)).error["kind"] == "config"


async def test_a_result_holds_nothing_of_the_credential(ask: Do, site) -> None:
    site.on(UPLOAD, lambda: web.json_response({"size": "1"}))
    outcome = await ask("put", data="x", auth={"token": "hush-hush"})
    assert b"hush" not in msgspec.json.encode(outcome)

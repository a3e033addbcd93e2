"""`script:` loaded when the task runs, against servers of our own."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from shared.events.outcome import Outcome
from shared.runtime.embedded.nats_server import free_port
from shared.tools.base.contract import ToolOptions
from shared.tools.registry import open_tool
from shared.tools.scripts import stores as script_store
from tests.support.calls import call

CODE = "def main(name='World', count=1):\n    return {'hello': [name] * count}\n"
Run = Callable[..., Awaitable[Outcome]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "scripts"
    (made / "sub").mkdir(parents=True)
    (made / "hello.py").write_text(CODE)
    (made / "sub" / "bom.py").write_bytes(b"\xef\xbb\xbfresult = '\xc3\xa9'")
    (tmp_path / "outside.py").write_text("result = 'outside'")
    (made / "link.py").symlink_to(tmp_path / "outside.py")
    (made / "inner_link.py").symlink_to(made / "hello.py")
    return made


@pytest.fixture
async def run(folder: Path) -> Any:
    tool = open_tool("python", ToolOptions(python_processes=1, scripts=str(folder)))

    async def one(uri: str, source: dict[str, Any] | None = None, auth: Any = None, **config: Any) -> Outcome:
        script = {"uri": uri, **({"source": source} if source is not None else {})}
        made = call({"script": script, **config})
        answered = await tool.run(msgspec.structs.replace(made, credentials={"script.source.auth": auth or {}}))
        assert isinstance(answered, Outcome)
        return answered

    yield one
    await tool.close()


@pytest.mark.parametrize("uri", ["hello.py", "./hello.py", "sub/../hello.py", "inner_link.py", "file://hello.py"])
async def test_a_file_of_the_folder_runs_with_its_args(run: Run, uri: str) -> None:
    outcome = await run(uri, {"type": "file"}, args={"name": "you", "count": 2})
    assert outcome.error is None
    assert outcome.result == {"hello": ["you", "you"]}


async def test_an_absolute_path_inside_the_folder_is_taken(run: Run, folder: Path) -> None:
    assert (await run(str(folder / "hello.py"))).result == {"hello": ["World"]}
    assert (await run("sub/bom.py")).result == "é"


@pytest.mark.parametrize("uri", ["../outside.py", "/etc/passwd", "link.py", "gone.py", "sub", "a\0b"])
async def test_what_is_not_a_file_of_the_folder_is_refused(run: Run, uri: str) -> None:
    outcome = await run(uri, {"type": "file"})
    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("script", False)
    assert outcome.py == {"exception_type": None}


async def test_a_script_is_bounded_in_size_and_must_be_text(run: Run, folder: Path) -> None:
    line = b"result = 1 #"
    (folder / "full.py").write_bytes(line + b"x" * (script_store.SCRIPT_LIMIT - len(line)))
    (folder / "over.py").write_bytes(line + b"x" * (script_store.SCRIPT_LIMIT - len(line) + 1))
    (folder / "bytes.py").write_bytes(b"\xff\xfe")
    assert (await run("full.py")).result == 1
    assert (await run("over.py")).error["kind"] == "limit"
    assert (await run("bytes.py")).error["kind"] == "script"


async def test_a_script_may_be_given_in_the_data(run: Run) -> None:
    assert (await run("inline", {"type": "inline", "code": "result = 5"})).result == 5
    assert (await run("inline", {"type": "inline"})).error["kind"] == "config"


async def test_code_and_script_at_once_are_a_mistake(run: Run) -> None:
    assert (await run("hello.py", code="result = 1")).error["kind"] == "config"


# -- http


async def test_http_sends_what_its_source_says(run: Run, site) -> None:
    url = site.on("/a/hello.py", lambda: web.Response(text=CODE))
    base = url.removesuffix("/hello.py")
    for uri, endpoint in ((url, None), ("hello.py", url), ("hello.py", base), ("./hello.py", base + "/"), ("", url)):
        source = {"type": "http", "endpoint": endpoint, "headers": {"X-A": "b"}, "timeout": 5}
        assert (await run(uri, source, {"token": "abc"})).result == {"hello": ["World"]}
    assert {(each["method"], each["path"], each["headers"]["x-a"], each["headers"]["authorization"])
            for each in site.requests} == {("GET", "/a/hello.py", "b", "Bearer abc")}
    post = site.on("/post", lambda: web.Response(text="result = 1"))
    assert (await run(post, {"type": "http", "method": "post"})).result == 1
    assert site.requests[-1]["method"] == "POST"


async def test_a_redirect_elsewhere_takes_no_credential_along(run: Run, site, other_site) -> None:
    there = other_site.on("/b", lambda: web.Response(text="result = 2"))
    here = site.on("/a", lambda: web.Response(status=302, headers={"Location": there}))
    assert (await run(here, None, {"token": "abc"})).result == 2
    assert "authorization" not in other_site.requests[0]["headers"]
    loop = site.on("/loop", lambda: web.Response(status=302, headers={"Location": "/loop"}))
    assert "redirects" in (await run(loop)).error["message"]


@pytest.mark.parametrize(("status", "retryable"), [(404, False), (403, False), (429, True), (503, True)])
async def test_an_answer_that_is_no_script_is_an_error_that_says_whether_to_retry(
    run: Run, site, status: int, retryable: bool,
) -> None:
    url = site.on("/x.py", lambda: web.Response(status=status, text="result = 1"))
    outcome = await run(url + "?key=secret")
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("script", retryable)
    assert str(status) in outcome.error["message"]
    assert "secret" not in outcome.error["message"]


async def test_a_server_that_is_not_there_or_does_not_answer_may_be_tried_again(run: Run, site) -> None:
    outcome = await run(f"http://127.0.0.1:{free_port()}/a.py")
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("script", True)
    outcome = await run(site.hang("/hang"), {"timeout": 0.1})
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("script", True)
    async with asyncio.timeout(30):
        await site.gone.wait()


async def test_an_answer_over_the_limit_is_not_held(run: Run, site) -> None:
    url = site.on("/big.py", lambda: web.Response(body=b"#" * (script_store.SCRIPT_LIMIT + 1)))
    assert (await run(url)).error["kind"] == "limit"


# -- Google Cloud Storage


def _bucket(site, path: str, text: str) -> str:
    site.on(path, lambda: web.Response(text=text, content_type="application/octet-stream"))
    return str(site.server.make_url("/")).rstrip("/")


async def test_gcs_reads_the_object_with_a_token(run: Run, site) -> None:
    base = _bucket(site, "/storage/v1/b/my-bucket/o/a/b c.py", CODE)
    for auth in ({"token": "abc"}, {"access_token": "abc"}):
        outcome = await run("gs://my-bucket/a/b c.py", {"type": "gcs", "endpoint": base}, auth)
        assert outcome.result == {"hello": ["World"]}
        assert site.requests[-1]["headers"]["authorization"] == "Bearer abc"
        assert site.requests[-1]["query"] == "alt=media"
    assert (await run("gs://my-bucket/a/b c.py", {"endpoint": base})).error is None
    assert "authorization" not in site.requests[-1]["headers"]


async def test_gcs_gets_a_token_for_a_service_account(run: Run, site) -> None:
    base = _bucket(site, "/storage/v1/b/bucket/o/a.py", "result = 3")
    token_uri = site.on("/token", lambda: web.json_response({"access_token": "made"}))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                            serialization.NoEncryption()).decode()
    account = {"client_email": "me@example.com", "private_key": pem, "token_uri": token_uri}
    for auth in (account, {"service_account_json": account}, {"service_account_json": json.dumps(account)}):
        assert (await run("gs://bucket/a.py", {"type": "gcs", "endpoint": base}, auth)).result == 3
        assert site.requests[-1]["headers"]["authorization"] == "Bearer made"
    (assertion,) = parse_qs(site.requests[-2]["body"])["assertion"]
    signed, _, signature = assertion.rpartition(".")
    key.public_key().verify(_b64(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    claim = json.loads(_b64(signed.split(".")[1]))
    assert (claim["iss"], claim["aud"]) == ("me@example.com", token_uri)


def _b64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize("auth", [{"user": "x"}, {"client_email": "x", "private_key": "no key"},
                                  {"service_account_json": "no json"}])
async def test_a_credential_gcs_cannot_use_is_a_mistake(run: Run, auth: dict[str, Any]) -> None:
    assert (await run("gs://bucket/a.py", {"type": "gcs", "endpoint": "http://127.0.0.1:9"}, auth)).error[
        "kind"] == "config"


@pytest.mark.parametrize("uri", ["gs://bucket", "gs:///a", "gs://b?x/a", "bucket/a.py", "s3://bucket/a"])
async def test_an_object_needs_its_bucket_and_name(run: Run, uri: str) -> None:
    assert (await run(uri, {"type": "gcs"})).error["kind"] == "config"


# -- S3


def _is_signed(request: dict[str, Any], host: str, secret: str, region: str) -> bool:
    """The signature of a GET, worked out again from AWS's description of it."""
    headers = request["headers"]
    _, _, fields = headers["authorization"].partition(" ")
    given = dict(each.strip().split("=", 1) for each in fields.split(","))
    date, names = headers["x-amz-date"], given["SignedHeaders"].split(";")
    values = {**headers, "host": host}
    canonical = "\n".join(["GET", request["raw_path"], "", *(f"{name}:{values[name]}" for name in names), "",
                           ";".join(names), headers["x-amz-content-sha256"]])
    scope = f"{date[:8]}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in (date[:8], region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest() == given["Signature"]


@pytest.mark.parametrize("names", [("access_key_id", "secret_access_key", "session_token"),
                                   ("aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
                                   ("key_id", "secret", "session_token")])
async def test_s3_requests_are_signed(run: Run, site, names: tuple[str, ...]) -> None:
    base = _bucket(site, "/bucket/migrations/v 1.py", "result = 4")
    auth = dict(zip(names, ("AKID", "the secret", "session"), strict=True))
    source = {"type": "s3", "endpoint": base, "region": "eu-west-1"}
    assert (await run("s3://bucket/migrations/v 1.py", source, auth)).result == 4
    seen = site.requests[-1] | {"raw_path": "/bucket/migrations/v%201.py"}
    assert seen["headers"]["x-amz-security-token"] == "session"
    assert "Credential=AKID/" in seen["headers"]["authorization"]
    assert _is_signed(seen, base.removeprefix("http://"), "the secret", "eu-west-1")
    assert not _is_signed(seen, base.removeprefix("http://"), "another", "eu-west-1")


async def test_s3_without_a_credential_is_asked_anonymously(run: Run, site) -> None:
    base = _bucket(site, "/bucket/a.py", "result = 4")
    assert (await run("s3://bucket/a.py", {"endpoint": base})).result == 4
    assert "authorization" not in site.requests[-1]["headers"]
    assert (await run("s3://bucket/a.py", {"endpoint": base}, {"token": "x"})).error["kind"] == "config"


async def test_an_hmac_key_reads_gcs_the_way_of_s3(run: Run, site) -> None:
    base = _bucket(site, "/bucket/a.py", "result = 6")
    outcome = await run("gs://bucket/a.py", {"endpoint": base}, {"key_id": "GOOG", "secret": "the secret"})
    assert outcome.result == 6
    seen = site.requests[-1] | {"raw_path": "/bucket/a.py"}
    assert _is_signed(seen, base.removeprefix("http://"), "the secret", "auto")


# -- SQL


async def test_a_sql_script_runs_and_its_args_are_bound(folder: Path, database: str) -> None:
    (folder / "make.sql").write_text(
        "-- it's a script\nDROP TABLE IF EXISTS t;\nCREATE TABLE t (a int[], b text);\n"
        "INSERT INTO t VALUES ('{1,2}', '{{ name }}!');\nSELECT b FROM t WHERE b = {{ name }} || '!';")
    tool = open_tool("postgres", ToolOptions(scripts=str(folder)))
    try:
        config = {"script": {"uri": "make.sql", "source": {"type": "file"}}, "args": {"name": "it's"}}
        outcome = await tool.run(call(config, auth={"dsn": database}))
        assert outcome.error is None
        assert outcome.result["rows"] == [{"b": "it's!"}]
        outcome = await tool.run(call({**config, "args": {"other": 1}}, auth={"dsn": database}))
        assert outcome.error["kind"] == "template"
        outcome = await tool.run(call({"script": {"uri": "gone.sql"}}, auth={"dsn": database}))
        assert (outcome.error["kind"], outcome.pg) == ("script", {"code": None, "sqlstate": None})
    finally:
        await tool.close()


async def test_a_sql_script_without_args_is_taken_as_it_is(folder: Path) -> None:
    (folder / "plain.sql").write_text("SELECT '{{1,2},{3,4}}' AS a, $1 AS b")
    tool = open_tool("duckdb", ToolOptions(scripts=str(folder)))
    try:
        outcome = await tool.run(call({"script": {"uri": "plain.sql"}, "params": [7]}))
        assert outcome.result["rows"] == [{"a": "{{1,2},{3,4}}", "b": 7}]
        assert (await tool.run(call({"script": {"uri": "gone.sql"}}))).error["kind"] == "script"
        (folder / "bad.sql").write_text("SELECT {{ gone }}")
        assert (await tool.run(call({"script": {"uri": "bad.sql"}, "args": {"a": 1}}))).error["kind"] == "template"
    finally:
        await tool.close()

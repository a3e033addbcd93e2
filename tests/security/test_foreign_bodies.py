"""What others send back: charsets, compression, JSON and headers made to cost, and values no JSON can hold."""

import asyncio
import base64
import contextlib
import gzip
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from shared.events.outcome import Outcome
from shared.tools.base import charsets
from shared.tools.base.contract import RESULT_DEPTH, RESULT_LIMIT, Tool, ToolOptions
from shared.tools.http.data import MAX_VALUES
from shared.tools.registry import open_tool
from tests.support.calls import call

Get = Callable[..., Awaitable[Outcome]]
PAUSE_S = 1.0  # the longest one answer may keep everything else of a worker waiting; under 0.1 s on an idle machine


@pytest.fixture
async def get() -> AsyncIterator[Get]:
    """One GET of an answer with this body and these headers, as they are on the wire."""
    answers: list[bytes] = []
    tool = open_tool("http", ToolOptions())

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answers[-1])
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"

    async def one(body: bytes, *headers: tuple[str, str]) -> Outcome:
        head = [("Connection", "close"), ("Content-Length", str(len(body))), *headers]
        lines = "".join(f"{name}: {value}\r\n" for name, value in head)
        answers.append(b"HTTP/1.1 200 OK\r\n" + lines.encode("latin-1") + b"\r\n" + body)
        outcome = await tool.run(call({"url": url}, timeout_s=60))
        assert isinstance(outcome, Outcome)
        return outcome

    yield one
    await tool.close()
    server.close()


async def _longest_pause(work: Awaitable[Outcome]) -> tuple[Outcome, float]:
    """What the work gave, and for how much of the processor's time at most it kept the loop from anything else."""
    longest, done = 0.0, False

    async def watch() -> None:
        nonlocal longest
        before = time.thread_time()
        while not done:
            await asyncio.sleep(0.001)
            longest, before = max(longest, time.thread_time() - before), time.thread_time()

    watching = asyncio.create_task(watch())
    outcome = await work
    done = True
    await watching
    return outcome, longest


def _text(charset: str) -> tuple[str, str]:
    return "Content-Type", f'text/plain; charset="{charset}"'


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "raw_unicode_escape", "utf-7", "hex", "zip",
                                     "bz2", "rot13", "uu", "quopri", "base64", "mbcs", "undefined", "nothing", "hz",
                                     "a" * 5000, "utf-8\x00", "../../x", "\xff"])
async def test_a_charset_that_is_not_known_is_told_and_the_bytes_are_kept(get: Get, charset: str) -> None:
    body = b"a-b2kcc" * 10_000
    kept = charset.replace("\x00", "%00")
    outcome, pause = await _longest_pause(get(body, _text(kept)))
    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("decode", False)
    assert "charset" in outcome.error["message"]
    assert len(outcome.error["message"]) < 300
    assert base64.b64decode(outcome.result["data"]) == body
    assert pause < PAUSE_S


@pytest.mark.parametrize(("charset", "text"), [
    ("utf-8", "é€𝄞"), ("UTF8", "é"), ("us-ascii", "abc"), ("iso-8859-1", "é"), ("ISO_8859-15", "€"), ("latin1", "ü"),
    ("windows-1252", "€"), ("Windows-1251", "Привет"), ("cp1250", "ž"), ("utf-16", "é𝄞"), ("utf-16le", "é"),
    ("utf-32", "é"), ("shift_jis", "日本"), ("Shift-JIS", "日本"), ("euc-jp", "日本"), ("iso-2022-jp", "日本"),
    ("euc-kr", "한국"), ("gb2312", "中文"), ("gbk", "中文"), ("gb18030", "中文𝄞"), ("big5", "中文"),
    ("koi8-r", "Привет"), ("koi8-u", "Привіт"), ("tis-620", "ไทย"), ("windows-874", "ไทย"), ("macintosh", "é"),
])
async def test_text_in_the_charsets_of_the_world_is_read(get: Get, charset: str, text: str) -> None:
    body = (text * 50_000).encode(charsets.CODECS[charsets.label(charset)])
    outcome = await get(body, _text(charset))
    assert outcome.error is None, outcome.error
    assert outcome.result["data"] == text * 50_000


@pytest.mark.parametrize("codec", sorted(set(charsets.CODECS.values())))
async def test_no_charset_on_the_list_is_slow_on_hostile_bytes(get: Get, codec: str) -> None:
    charset = next(label for label, name in charsets.CODECS.items() if name == codec)
    for unit in (b"\xff", b"\x80", b"\x81 ", b"\x1b$B", b"\x00\xd8", b"\xf0\x9f\x98", b"\x1b"):
        outcome, pause = await _longest_pause(get(unit * (4_000_000 // len(unit)), _text(charset)))
        assert outcome.status in ("ok", "error")
        assert pause < PAUSE_S, unit


async def test_bytes_that_are_no_text_are_kept_as_bytes(get: Get) -> None:
    body = b"\xff" * (charsets.MAX_REPLACED + charsets.CHUNK)
    outcome = await get(body, _text("utf-8"))
    assert outcome.error is not None
    assert outcome.error["kind"] == "decode"
    assert base64.b64decode(outcome.result["data"]) == body
    some = await get(b"a\xffb", _text("utf-8"))
    assert (some.error, some.result["data"]) == (None, "a\ufffdb")


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_bomb_is_a_limit_and_is_never_held(get: Get, coding: str) -> None:
    plain = b"\0" * (RESULT_LIMIT * 8)
    body = gzip.compress(plain, 1) if coding == "gzip" else zlib.compress(plain, 1)
    started = time.monotonic()
    outcome, pause = await _longest_pause(get(body, ("Content-Encoding", coding)))
    assert outcome.error is not None
    assert outcome.error["kind"] == "limit"
    assert pause < PAUSE_S
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "nothing", "gzip, gzip", "gzip" + ",gzip" * 1000])
async def test_what_cannot_be_decompressed_is_an_outcome(get: Get, coding: str) -> None:
    outcome = await get(b"not compressed", ("Content-Encoding", coding), ("Content-Type", "text/plain"))
    assert (outcome.error is None) == (outcome.result is not None and outcome.result["data"] == "not compressed")


JSON = ("Content-Type", "application/json")


@pytest.mark.parametrize("depth", [RESULT_DEPTH + 1, 900, 5000, 1_000_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
async def test_json_nested_too_deeply_is_refused(get: Get, depth: int, opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    outcome = await get((opening * depth + "1" + closing * depth).encode(), JSON)
    assert outcome.error is not None
    assert outcome.error["kind"] in ("limit", "decode")
    assert any(word in outcome.error["message"] for word in ("nested", "values"))
    msgspec.json.encode(outcome)


@pytest.mark.parametrize("text", ["9" * 5000, "-" + "9" * 1_000_000, "1e999", "NaN", "Infinity", '"\\ud800"', "{",
                                  '{"a": 1}{"b": 2}', "\xff\xfe", "[1,]"])
async def test_json_that_is_none_is_told(get: Get, text: str) -> None:
    outcome = await get(text.encode("latin-1"), JSON)
    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("decode", False)
    msgspec.json.encode(outcome)


async def test_json_at_the_edges_is_read(get: Get) -> None:
    deep = RESULT_DEPTH - 2
    assert (await get(b"[" * deep + b"]" * deep, JSON)).error is None
    assert (await get(b'{"a": 1, "a": 2}', JSON)).result["data"] == {"a": 2}
    assert (await get(b'"\\u0000"', JSON)).result["data"] == "\0"


@pytest.mark.parametrize("body", [
    b"[" + b"{}," * MAX_VALUES + b"1]", b"{" + b",".join(b'"%d":0' % n for n in range(MAX_VALUES + 1)) + b"}",
    b"[" + b"[1]," * (MAX_VALUES // 2 + 1) + b"1]",
], ids=["mappings", "keys", "lists"])
async def test_json_of_too_many_values_is_refused_before_they_are_made(get: Get, body: bytes) -> None:
    outcome, pause = await _longest_pause(get(body, ("Content-Type", "application/json")))
    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("limit", False)
    assert "500,000 values" in outcome.error["message"]
    assert pause < PAUSE_S


async def test_commas_in_text_are_no_values(get: Get) -> None:
    body = msgspec.json.encode(["," * 2 * MAX_VALUES, 'a "," b' * 10])
    outcome = await get(body, ("Content-Type", "application/json"))
    assert outcome.error is None


async def test_headers_are_bounded_in_number_and_size(get: Get) -> None:
    for headers in ([("X-A", "b" * 100_000)], [(f"X-{n}", "b") for n in range(5000)],
                    [("Set-Cookie", f"a{n}=b") for n in range(5000)]):
        outcome = await get(b"", *headers)
        assert outcome.error is not None
        assert outcome.error["kind"] == "connect"
        assert len(str(outcome)) < 5000


# -- what other tools give back


@pytest.fixture
async def opened() -> AsyncIterator[Callable[[str], Tool]]:
    tools: list[Tool] = []

    def one(kind: str) -> Tool:
        tools.append(open_tool(kind, ToolOptions(python_processes=1)))
        return tools[-1]

    yield one
    for tool in tools:
        await tool.close()


async def _told(tool: Tool, config: dict[str, Any]) -> Outcome:
    outcome = await tool.run(call(config, timeout_s=60))
    assert isinstance(outcome, Outcome)
    again = msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome)
    assert msgspec.json.encode(again) == msgspec.json.encode(outcome)
    return again


@pytest.mark.parametrize("code", [
    "result = 10 ** 100000", "result = float('nan')", "result = '\\ud800'", "result = {'\\udcff': 1}",
    "result = []\nfor _ in range(150): result = [result]", "result = []\nfor _ in range(100000): result = [result]",
    "result = {}\nresult['a'] = result", "print('\\ud800\\x1b]52;c;x\\x07')",
    "import sys; sys.stdout.buffer.write(b'\\xff\\0')",
    "raise ValueError('\\ud800' * 10)", "raise ValueError('x' * 10_000_000)", "result = b'\\xff'",
    "result = {1: 2, (1, 2): 3}",
])
async def test_what_a_program_gives_back_can_be_recorded(opened: Callable[[str], Tool], code: str) -> None:
    outcome = await _told(opened("python"), {"code": code})
    assert outcome.status in ("ok", "error")
    assert outcome.error is None or outcome.error["kind"] != "internal", outcome.error


@pytest.mark.parametrize("script", [
    r"printf '\000\377\355\240\200\033]52;c;eA==\a'", "head -c 5000000 /dev/urandom",
    r"printf '\355\240\200' >&2; exit 3",
])
async def test_what_a_shell_prints_can_be_recorded(opened: Callable[[str], Tool], script: str) -> None:
    outcome = await _told(opened("shell"), {"command": script})
    assert outcome.error is None or outcome.error["kind"] != "internal"


async def test_json_of_a_shell_is_bounded_too(opened: Callable[[str], Tool]) -> None:
    for text in ("[" * 900 + "]" * 900, "[" * 5000 + "]" * 5000):
        outcome = await _told(opened("shell"), {"command": f"echo '{text}'", "output": "json"})
        assert outcome.error is not None
        assert outcome.error["kind"] in ("limit", "decode", "shell", "output"), outcome.error


@pytest.mark.parametrize("query", [
    "SELECT 'nan'::double AS a, 'infinity'::double AS b, 170141183460469231731687303715884105727::hugeint AS c",
    r"SELECT '\xff\x00'::blob AS a, chr(0) AS b, chr(27) || ']52;c;x' AS c", "SELECT * FROM test_all_types()",
    "SELECT " + "[" * 150 + "1" + "]" * 150 + " AS deep", "SELECT '" + "[" * 150 + "]" * 150 + "'::json AS deep",
    "SELECT '" + "[" * 5000 + "]" * 5000 + "'::json AS deep", "SELECT ('9' || repeat('9', 5000))::json AS wide",
    "SELECT repeat('9', 38)::decimal(38, 0) AS d, 1e308::double * 10 AS e", "SELECT MAP {[1]: 2} AS m",
])
async def test_what_a_database_gives_back_can_be_recorded(opened: Callable[[str], Tool], query: str) -> None:
    outcome = await _told(opened("duckdb"), {"command": query})
    assert outcome.error is None or outcome.error["kind"] in ("limit", "duckdb", "decode"), outcome.error

"""Every way to log in, on a real server; and what is wrong is said by the name of its setting."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from shared.bus.jetstream import connect
from shared.bus.login.files import LoginFiles
from shared.errors import Refused, Unavailable
from tests.integration.login.conftest import Party
from tests.support.servers.certificates import HOST
from tests.support.servers.configured_nats import ConfiguredNats
from tests.support.servers.operator_nats import Operator, new_key
from tests.support.waiting import until

WITHIN_S = 5.0


async def ask(url: str, files: LoginFiles, within_s: float = WITHIN_S, **who: str) -> int:
    """How many streams there are: somebody who is logged in can ask."""
    bus = await connect(url, files=files, within_s=within_s, **who)  # type: ignore[arg-type]  # texts alone
    try:
        return int((await bus.requests.api("INFO"))["streams"])
    finally:
        await bus.close()


async def refused(url: str, files: LoginFiles, **who: str) -> str:
    with pytest.raises(Refused) as said:
        await ask(url, files, **who)
    return str(said.value)


@pytest.mark.parametrize("scheme", ["tls", "nats"])
async def test_a_server_with_tls_is_talked_to_by_tls(scheme: str, ours: Party, tmp_path: Path) -> None:
    with ConfiguredNats(tmp_path, {"tls": ours.tls}) as server:
        assert await ask(f"{scheme}://{server.address}", ours.trusted) == 0


async def test_a_server_may_want_a_certificate_of_its_clients(ours: Party, tmp_path: Path) -> None:
    with ConfiguredNats(tmp_path, {"tls": {**ours.tls, "verify": True}}) as server:
        assert await ask(server.url, ours.known) == 0


async def test_a_server_may_begin_with_the_handshake(ours: Party, tmp_path: Path) -> None:
    with ConfiguredNats(tmp_path, {"tls": {**ours.tls, "handshake_first": True}}) as server:
        assert await ask(server.url, replace(ours.trusted, tls_first=True)) == 0
        with pytest.raises(Unavailable, match="NOETL_NATS_TLS_FIRST is true"):
            await ask(server.url, ours.trusted, 3.5)


async def test_a_server_that_only_offers_tls_is_taken_by_its_word(ours: Party, tmp_path: Path) -> None:
    with ConfiguredNats(tmp_path, {"tls": ours.tls, "allow_non_tls": True}) as server:
        bus = await connect(server.url, files=ours.trusted)
        assert bus.connection.is_encrypted
        await bus.close()


async def test_one_of_several_servers_is_enough(ours: Party, tmp_path: Path) -> None:
    with ConfiguredNats(tmp_path, {"tls": ours.tls}) as server:
        assert await ask(f"nats://{HOST}:1, tls://{server.address}", ours.trusted) == 0


@pytest.mark.usefixtures("hasty")
async def test_a_key_in_a_file_is_enough(tmp_path: Path) -> None:
    known, unknown = new_key(), new_key()
    files = [tmp_path / name for name in ("known", "unknown")]
    for file, key in zip(files, (known, unknown), strict=True):
        file.write_text(f"{key.seed}\n")
    with ConfiguredNats(tmp_path / "server", {"authorization": {"users": [{"nkey": known.public}]}}) as server:
        assert await ask(server.url, LoginFiles(nkey=str(files[0]))) == 0
        assert "NOETL_NATS_NKEY_FILE" in await refused(server.url, LoginFiles(nkey=str(files[1])))
        assert "user or password" in await refused(server.url, LoginFiles(), user="u", password="p")


@pytest.mark.usefixtures("hasty")
async def test_credentials_in_a_file_are_enough(tmp_path: Path) -> None:
    operator, file = Operator(), tmp_path / "user.creds"
    operator.write_creds(file, "user")
    with ConfiguredNats(tmp_path / "server", operator.config) as server:
        assert await ask(server.url, LoginFiles(creds=str(file))) == 0
        Operator().write_creds(file, "stranger", seconds=4)
        said = await refused(server.url, LoginFiles(creds=str(file)))
        assert "NOETL_NATS_CREDS_FILE" in said
        assert "good until" in said


@pytest.mark.usefixtures("hasty")
async def test_a_server_that_knows_no_keys_is_not_entered_as_somebody_else(tmp_path: Path) -> None:
    file = tmp_path / "seed"
    file.write_text(new_key().seed)
    with ConfiguredNats(tmp_path / "server", {}) as server:
        assert "NOETL_NATS_NKEY_FILE" in await refused(server.url, LoginFiles(nkey=str(file)))


@pytest.mark.usefixtures("hasty")
async def test_a_server_of_another_issuer_is_not_trusted(ours: Party, theirs: Party, tmp_path: Path) -> None:
    with ConfiguredNats(tmp_path, {"tls": ours.tls}) as server:
        assert f"NOETL_NATS_CA_FILE is {theirs.ca}" in await refused(server.url, theirs.trusted)
        assert "NOETL_NATS_CA_FILE names" in await refused(server.url, LoginFiles())
        assert "NOETL_NATS_URL" in await refused(f"tls://localhost:{server.port}", ours.trusted)


@pytest.mark.usefixtures("hasty")
async def test_a_client_that_the_server_does_not_know_is_told_what_to_set(
    ours: Party, theirs: Party, tmp_path: Path
) -> None:
    with ConfiguredNats(tmp_path, {"tls": {**ours.tls, "verify": True}}) as server:
        assert "NOETL_NATS_CERT_FILE and NOETL_NATS_KEY_FILE" in await refused(server.url, ours.trusted)
        stranger = replace(theirs.known, ca=ours.ca)
        assert f"NOETL_NATS_CERT_FILE ({stranger.cert})" in await refused(server.url, stranger)


@pytest.mark.parametrize("ended", [{1, 2}, {2, 3}], ids=["at first", "later"])
async def test_a_server_that_ends_a_connection_instead_of_answering_is_asked_again(ended: set[int]) -> None:
    """As one does that reads its configuration again in that moment."""
    links: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        links.append(writer)
        is_ended = len(links) in ended
        writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576}\r\n')
        async for line in reader:
            if line == b"PING\r\n":
                if is_ended:
                    break
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(serve, HOST, 0) as server:
        bus = await connect(f"nats://{HOST}:{server.sockets[0].getsockname()[1]}", within_s=WITHIN_S)
        if 1 not in ended:
            links[0].close()
            await until(lambda: not bus.connection.is_connected, "the connection is gone")
        await until(lambda: bus.connection.is_connected, "it is there again")
        assert len(links) == max(ended) + 1
        await bus.close()


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("wants", ["the address", "a file"])
async def test_whoever_wants_tls_sends_nothing_without_it(wants: str, ours: Party) -> None:
    """Whoever stands in between may say in the server's name that it has none."""
    heard: list[bytes] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"auth_required":true}\r\n')
        heard.append(await reader.read())
        writer.close()
        await writer.wait_closed()
        over.set()

    async with await asyncio.start_server(serve, HOST, 0) as server:
        port = server.sockets[0].getsockname()[1]
        files = ours.trusted if wants == "a file" else LoginFiles()
        scheme = "tls" if wants == "the address" else "nats"
        assert "offers no TLS" in await refused(f"{scheme}://{HOST}:{port}", files, user="u", password="hidden")
        await over.wait()
    assert set(heard) <= {b""}

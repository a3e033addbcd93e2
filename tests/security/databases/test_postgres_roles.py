"""The embedded PostgreSQL asks everybody for a password, and each role may do what it is for and nothing else."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest

from shared.runtime.embedded import postgres
from shared.runtime.embedded.postgres_programs import Programs
from shared.runtime.embedded.postgres_roles import PROJECTOR, READER
from shared.runtime.readmodel.schema import migrate

Connection = asyncpg.Connection


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[postgres.Server]:
    folder = tmp_path_factory.mktemp("roles") / "postgres"
    try:
        yield postgres.start(folder)
    finally:
        postgres.stop(folder)


@pytest.fixture
async def projector(server: postgres.Server) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(server.dsn(PROJECTOR))
    await migrate(connection)
    yield connection
    await connection.close()


@pytest.fixture
async def reader(server: postgres.Server, projector: Connection) -> AsyncIterator[Connection]:  # noqa: ARG001 (migrated)
    connection = await asyncpg.connect(server.dsn(READER))
    yield connection
    await connection.close()


@pytest.mark.parametrize("user", ["postgres", PROJECTOR, READER, "root", "nobody"])
@pytest.mark.parametrize("password", ["", "guess"])
async def test_nobody_gets_in_without_the_password(server: postgres.Server, user: str, password: str) -> None:
    with pytest.raises(asyncpg.PostgresError):
        await asyncpg.connect(f"postgresql://{user}:{password}@/postgres?host={quote(server.socket)}")


def hba(server: postgres.Server) -> str:
    return (Path(server.socket) / "pg_hba.conf").read_text()


async def test_it_listens_on_no_address_and_trusts_nobody(server: postgres.Server, projector: Connection) -> None:
    assert await projector.fetchval("SHOW listen_addresses") == ""
    assert await projector.fetchval("SHOW password_encryption") == "scram-sha-256"
    rules = [line.split() for line in hba(server).splitlines() if line[:1] != "#"]
    assert {rule[-1] for rule in rules if rule} == {"scram-sha-256"}


def shown(pid: int | None, file: str) -> bytes:
    return Path(f"/proc/{pid}/{file}").read_bytes()


async def test_a_command_line_and_an_environment_of_it_hold_no_password(
    server: postgres.Server, projector: Connection
) -> None:
    own = await projector.fetchval("SELECT pg_backend_pid()")
    for pid in (postgres.pid_of(Path(server.socket)), own):
        for file in ("cmdline", "environ"):
            said = shown(pid, file)
            assert not [role for role, password in server.passwords.items() if password.encode() in said]
            assert b"NOETL_" not in said


async def test_the_projector_keeps_the_schema_and_is_no_superuser(projector: Connection) -> None:
    assert await projector.fetchval("SELECT usesuper FROM pg_user WHERE usename = current_user") is False
    await projector.execute("INSERT INTO noetl.cursor VALUES (7, 7) ON CONFLICT DO NOTHING")
    await projector.execute("TRUNCATE noetl.cursor")
    for statement in ("COPY noetl.cursor TO '/tmp/x'", "COPY (SELECT 1) TO PROGRAM 'id'", "CREATE ROLE more",
                      "SELECT pg_read_file('/etc/passwd')", "CREATE DATABASE more", "ALTER ROLE postgres PASSWORD 'x'"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await projector.execute(statement)


WRITES = (
    "INSERT INTO noetl.cursor VALUES (9, 9)", "UPDATE noetl.execution SET status = 'failed'",
    "DELETE FROM noetl.record_group", "TRUNCATE noetl.execution", "DROP TABLE noetl.record_group",
    "DROP VIEW noetl.event",
    "CREATE TABLE noetl.mine (a int)", "CREATE SCHEMA mine",
    "CREATE TABLE public.m (a int)", "ALTER TABLE noetl.record_group ADD COLUMN a int",
    "CREATE TEMPORARY TABLE t (a int)",
    "SELECT 1 FROM noetl.cursor FOR UPDATE", "DO $$ BEGIN LOCK TABLE noetl.record_group; END $$",
    f"SET ROLE {PROJECTOR}", "COPY (SELECT 1) TO PROGRAM 'id'", f"ALTER ROLE {PROJECTOR} PASSWORD 'x'",
)


async def test_who_reads_reads_every_table_and_writes_none(reader: Connection) -> None:
    query = "SELECT relname FROM pg_class WHERE relnamespace = 'noetl'::regnamespace AND relkind IN ('r', 'v')"
    names = [row["relname"] for row in await reader.fetch(query)]
    assert {"record", "event", "execution"} < set(names)
    for name in names:
        await reader.fetch(f"SELECT * FROM noetl.{name} LIMIT 1")
    for statement in WRITES:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await reader.execute(statement)


async def test_tables_that_come_later_can_be_read_too(projector: Connection, reader: Connection) -> None:
    await projector.execute("CREATE TABLE IF NOT EXISTS noetl.later (a int)")
    try:
        assert await reader.fetch("SELECT * FROM noetl.later") == []
    finally:
        await projector.execute("DROP TABLE noetl.later")


async def test_a_folder_of_an_earlier_version_is_closed_when_it_starts(tmp_path: Path) -> None:
    """It was made with `trust`, its tables are the superuser's, and its server still runs."""
    folder = tmp_path / "postgres"
    folder.mkdir(mode=0o700)
    programs = Programs(folder)
    programs.own(folder)
    programs.run("initdb", "-D", "{data}", "-U", "postgres", "--encoding=utf8", "--auth=trust")
    programs.run("pg_ctl", "-w", "-o", "-c listen_addresses= -k {data}", "-l", "{data}/log", "-D", "{data}", "start")
    as_root = f"postgresql://postgres:@/postgres?host={quote(str(folder))}"
    old = await asyncpg.connect(as_root)
    await migrate(old)
    await old.execute("INSERT INTO noetl.cursor VALUES (0, 42)")
    await old.close()
    server = postgres.start(folder)
    try:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(as_root)
        reader, projector = await asyncpg.connect(server.dsn(READER)), await asyncpg.connect(server.dsn(PROJECTOR))
        assert await reader.fetchval("SELECT seq FROM noetl.cursor WHERE partition = 0") == 42
        assert (await migrate(projector)).names == []
        await projector.execute("ALTER TABLE noetl.cursor ADD COLUMN IF NOT EXISTS note text")
        for connection in (reader, projector):
            await connection.close()
        assert postgres.start(folder) == server, "it is reached as before while it runs"
    finally:
        postgres.stop(folder)
    again = postgres.start(folder)
    try:
        assert again.passwords == server.passwords
    finally:
        postgres.stop(folder)


async def test_passwords_that_were_lost_are_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "postgres"
    first = postgres.start(folder)
    postgres.stop(folder)
    folder.with_name("postgres.json").unlink()
    second = postgres.start(folder)
    try:
        assert first.passwords != second.passwords
        await (await asyncpg.connect(second.dsn(READER))).close()
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(replaced(second, first).dsn(READER))
    finally:
        postgres.stop(folder)


def replaced(server: postgres.Server, by: postgres.Server) -> postgres.Server:
    return postgres.Server(by.passwords, server.roles_version, server.socket)

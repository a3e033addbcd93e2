"""Credentials as secrets of DuckDB."""

import pytest

from shared.tools.base.guard import BadCall
from shared.tools.duckdb import secrets as duck_secrets
from shared.tools.sql.text import split


def secrets(auth, statements) -> list[str]:
    return [each.text for each in duck_secrets.secrets(auth, statements)]


PG = {"type": "postgres", "dsn": "postgresql://me:p%40ss@db.example:5433/shop"}
HMAC = {"type": "hmac", "key_id": "GOOG", "secret": "it's", "scope": "gs://bucket"}
ATTACH = split("INSTALL postgres; ATTACH '' AS pg_db (TYPE postgres, SECRET pg_db)", [])
COPY = split("COPY t TO $1", ["gs://bucket/a.parquet"])


def test_a_secret_has_its_alias_and_the_fields_of_the_credential() -> None:
    assert secrets({"pg_db": PG}, ATTACH) == [
        'CREATE OR REPLACE TEMPORARY SECRET "pg_db" (TYPE postgres, HOST \'db.example\', PORT \'5433\', '
        "DATABASE 'shop', USER 'me', PASSWORD 'p@ss')"]
    fields = {"type": "pg", "db_host": "h", "db_port": 5432, "db_user": "u", "db_password": "p", "db_name": "d"}
    assert "(TYPE postgres, HOST 'h', PORT '5432', DATABASE 'd', USER 'u', PASSWORD 'p')" in secrets(
        {"pg_db": fields}, ATTACH)[0]
    socket = secrets({"pg_db": {"type": "pg", "dsn": "postgresql://me@/shop?host=%2Frun%2Fpg"}}, ATTACH)[0]
    assert "HOST '/run/pg', DATABASE 'shop', USER 'me')" in socket
    assert secrets({"files": HMAC}, COPY) == [
        'CREATE OR REPLACE TEMPORARY SECRET "files" (TYPE gcs, KEY_ID \'GOOG\', SECRET \'it\'\'s\', '
        "SCOPE 'gs://bucket')"]


def test_only_secrets_that_are_used_are_made_since_each_needs_an_extension() -> None:
    assert [text.split()[5] for text in secrets({"pg_db": PG, "files": HMAC}, COPY)] == ['"files"']
    assert [text.split()[5] for text in secrets({"pg_db": PG, "files": HMAC}, ATTACH)] == ['"pg_db"']
    assert secrets({"pg": PG}, split("SELECT 'pgx', a_pg", [])) == []
    assert secrets(None, COPY) == secrets({}, COPY) == []


def test_a_credential_without_an_alias_is_one_secret() -> None:
    aws = {"type": "s3", "access_key_id": "A", "secret_access_key": "B", "region": "eu-west-1"}
    assert secrets(aws, split("SELECT * FROM \"s3://b/c.csv\"", [])) == [
        'CREATE OR REPLACE TEMPORARY SECRET "secret" (TYPE s3, KEY_ID \'A\', SECRET \'B\', REGION \'eu-west-1\')']


@pytest.mark.parametrize("credential", [
    {"type": "ldap"}, {}, {"type": "gcs", "token": "x"}, {"type": "s3", "key_id": "x"},
    {"type": "postgres", "dsn": "postgresql://h:port/x"},
])
def test_a_credential_duckdb_cannot_use_is_a_mistake(credential) -> None:
    with pytest.raises(BadCall):
        secrets({"pg_db": credential}, [*ATTACH, *COPY, *split("SELECT * FROM \"s3://b/c.csv\"", [])])

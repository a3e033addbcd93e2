"""Where a lake is, and how it is attached: nothing an author writes becomes SQL of its own."""

from pathlib import Path
from typing import Any

import pytest

from shared.tools.base.contract import ToolOptions
from shared.tools.duckdb.guard import guard
from shared.tools.duckdb.lake_catalog import catalog, load
from tests.support.calls import call


def found(auth: dict[str, Any] | None = None, **config: Any):
    allowed = guard(ToolOptions(duckdb_files=("/data", "/lakes", "s3://mine/")))
    return catalog(call({"catalog_name": "lab", **config}, auth=auth), allowed)


def test_a_connection_string_is_attached_with_its_data() -> None:
    where = found(catalog_connection="postgresql://u:p%40ss@h/db", data_path="/data/it's")
    assert where.statements() == [
        "ATTACH 'ducklake:postgres:postgresql://u:p%40ss@h/db' AS \"lab\" (DATA_PATH '/data/it''s')", 'USE "lab"']
    assert where.extensions == ("ducklake", "postgres_scanner")
    assert set(where.secrets) == {"postgresql://u:p%40ss@h/db", "p%40ss", "p@ss"}


def test_a_file_needs_no_server() -> None:
    where = found(catalog_connection="/lakes/x.ducklake", catalog_name='a"b')
    assert where.statements()[0] == "ATTACH 'ducklake:/lakes/x.ducklake' AS \"a\"\"b\""
    assert (where.extensions, where.secrets) == (("ducklake",), ())


def test_data_at_an_address_needs_the_extension_for_it() -> None:
    assert found(catalog_connection="/lakes/x", data_path="s3://mine/x").extensions == ("ducklake", "httpfs")


@pytest.mark.parametrize(("auth", "place"), [
    ({"dsn": "postgres://h/d"}, "postgres:postgres://h/d"),
    ({"host": "h", "port": 5432, "user": "u", "password": r"a'b\c", "database": "d"},
     r"postgres:host='h' port='5432' user='u' password='a\'b\\c' dbname='d'"),
    ({"db_host": "h", "db_name": "d", "type": "postgres"}, "postgres:host='h' dbname='d'"),
])
def test_a_credential_says_where_the_catalogue_is(auth: dict[str, Any], place: str) -> None:
    assert found(auth).place == place


def test_an_extension_comes_from_its_package_if_it_is_for_this_duckdb() -> None:
    import duckdb

    file = load("ducklake", duckdb.__version__).removeprefix("LOAD ").strip("'")
    assert Path(file).is_file()
    assert load("ducklake", "0.0.1") == "LOAD ducklake"
    assert load("no_such_extension", duckdb.__version__) == "LOAD no_such_extension"

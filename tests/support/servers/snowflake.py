"""Snowflake for tests: the real connector, answered by fakesnow, which runs the statements on DuckDB."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

CREDENTIAL = {"sf_account": "acme", "sf_user": "loader", "sf_password": "hunter-22", "sf_database": "LAB",
              "sf_schema": "PUBLIC"}


@contextlib.contextmanager
def fake_snowflake() -> Iterator[list[dict[str, Any]]]:
    """Everything that connects meanwhile shares one account; yields what each session was opened with."""
    import fakesnow
    import fakesnow.info_schema
    import snowflake.connector

    opened: list[dict[str, Any]] = []
    with fakesnow.patch(), pytest.MonkeyPatch.context() as patch:
        connect = snowflake.connector.connect

        def session(**arguments: Any) -> Any:
            opened.append(arguments)
            connection = connect(**arguments)
            connection.close = _ends_all(connection)
            return connection

        patch.setattr(snowflake.connector, "connect", session)
        # What it notes about tables is in another database, which one transaction of DuckDB cannot also write.
        for note in ("insert_text_lengths_sql", "insert_table_comment_sql"):
            patch.setattr(fakesnow.info_schema, note, lambda *_: "SELECT 1")
        yield opened


def _ends_all(connection: Any) -> Callable[[], None]:
    """Snowflake ends what runs in a session that is closed; DuckDB has to be told."""
    close = connection.close

    def end() -> None:
        connection._duck_conn.interrupt()
        close()

    return end

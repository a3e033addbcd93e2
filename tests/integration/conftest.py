"""The broker of the integration tests."""

from tests.support.servers.nats import admin, nats_server
from tests.support.users import as_user

__all__ = ["admin", "as_user", "nats_server"]

"""The broker of the integration tests."""

from tests.support.nats import admin, nats_server

__all__ = ["admin", "nats_server"]

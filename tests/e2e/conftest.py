"""Fixtures of the end-to-end tests."""

from tests.support.cli import cli, up

__all__ = ["cli", "up"]

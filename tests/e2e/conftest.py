"""Fixtures of the end-to-end tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import cli, inner, up
from tests.support.documents import fresh as fresh_venv
from tests.support.documents.transcript import Shell

__all__ = ["cli", "fresh", "inner", "typed", "up"]


@pytest.fixture(scope="session")
def fresh() -> Iterator[Path]:
    """A virtualenv with the wheel of this tree."""
    with fresh_venv.made() as installed:
        yield installed


@pytest.fixture
def typed(fresh: Path) -> Iterator[Shell]:
    """A shell in an empty folder in which it is active."""
    with fresh_venv.session(fresh) as shell:
        yield shell

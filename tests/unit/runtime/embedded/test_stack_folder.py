"""A stack's folder belongs to one process at a time."""

from pathlib import Path

import pytest

from shared.errors import Refused
from shared.runtime.embedded.stack_folder import held


def test_a_folder_in_use_is_refused_with_the_owner(tmp_path: Path) -> None:
    with held(tmp_path / "x"), pytest.raises(Refused, match=r"in use by process \d+"), held(tmp_path / "x"):
        pass


def test_a_folder_is_free_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with held(tmp_path) as folder:
            assert folder.is_absolute()

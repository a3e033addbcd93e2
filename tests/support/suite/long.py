"""Cases of slow tests that `make test` leaves out: it runs another case of each. `make long` runs them."""

from typing import Any

import pytest


def long(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.long)

"""No line of the rules is there for nothing: without it a cell of the table is another. `make test` takes some of them
away, `make long` all."""

import re
from pathlib import Path

import pytest

from shared.bus.permissions import Account
from tests.integration.broker_auth.lines import Line, cell, lines, without
from tests.integration.broker_auth.matrix import ARRIVES_S, LOST_S, Table
from tests.support.servers.keyed_nats import KeyedNats, NotStarted, accounts_of, keyring, running
from tests.support.suite.long import long

POOLS = ("default",)
EVERY = 29  # of which `make test` takes one
CASES = [(mode, line) for mode in ("accounts", "jwt") for line in lines(accounts_of(keyring(mode, Path(), POOLS)))]


@pytest.mark.parametrize(
    ("mode", "line"), [case if number % EVERY == 0 else long(*case) for number, case in enumerate(CASES)], ids=str
)
def test_a_line_that_is_taken_away_is_missed(mode: str, line: Line, tmp_path: Path) -> None:
    keys = keyring(mode, tmp_path, POOLS)
    accounts = accounts_of(keys)
    less = KeyedNats(tmp_path, keys, without(accounts, line))
    if mode == "accounts" and line.where == "exports":  # who imports it is in the same file
        with pytest.raises(NotStarted, match=re.escape(line.text.partition(" ")[2])):
            less.start()
        return
    with running(less) as server:
        found = Table(server, accounts)
        assert _tried(found, line, accounts) != _is_a_right(line), f"nobody misses it: {line}"


def _is_a_right(line: Line) -> bool:
    """Or one that takes a right away."""
    return not line.where.endswith("_not")


def _tried(found: Table, line: Line, accounts: list[Account]) -> bool:
    which, within_s = cell(accounts, line), LOST_S if _is_a_right(line) else ARRIVES_S
    return found.is_so(which, within_s=within_s) if which else found.hears_ends_of_connections(within_s)

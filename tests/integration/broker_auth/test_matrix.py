"""Every user tries every subject of anybody's list, by configured accounts and by signed ones: what the rules allow
works, and all else is refused."""

from collections import Counter
from pathlib import Path

import pytest

from tests.integration.broker_auth.matrix import Table, cells, is_allowed
from tests.support.servers.keyed_nats import KeyedNats, keyring, running

MODES = ("accounts", "jwt")


@pytest.mark.parametrize("mode", MODES)
def test_every_cell_is_as_the_rules_say(mode: str, tmp_path: Path) -> None:
    keys = keyring(mode, tmp_path)
    accounts = keys.accounts
    tried: Counter[str] = Counter()
    wrong = []
    with running(KeyedNats(tmp_path, keys)) as server:
        found = Table(server, accounts)
        for cell in cells(accounts):
            wanted = is_allowed(accounts, cell)
            tried[f"{cell.user} {wanted}"] += 1
            if found.is_so(cell) != wanted:
                wrong.append(f"{cell}: {'it does not work' if wanted else 'it is allowed'}")
        wrong += [] if found.hears_ends_of_connections() else ["admin hear noetl.closed.*: it does not work"]
    assert wrong == []
    assert all(tried[f"{user} {wanted}"] for user in keys.users for wanted in (True, False) if user != "admin"), tried

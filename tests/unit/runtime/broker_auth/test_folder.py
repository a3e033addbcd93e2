"""A keyring's files: their owner's alone, as many as there are users, and not written for nothing."""

from pathlib import Path

import pytest

from shared.errors import Refused
from shared.runtime.broker_auth import documents, folder
from shared.runtime.broker_auth.keyring import Keyring, with_pools

NOW = 1_790_000_000
KEYS = documents.ready(Keyring(mode="accounts", pools=("default", "etl"), partitions=1), NOW)


def test_all_but_the_servers_part_are_their_owners_alone(tmp_path: Path) -> None:
    assert folder.write(tmp_path, KEYS)
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert {name for name, mode in modes.items() if mode != 0o600} == {documents.SERVER_FILE}
    assert set(modes) == {*documents.user_files(KEYS), documents.SERVER_FILE, folder.KEYRING}
    assert not folder.write(tmp_path, KEYS), "it is as it was"


def test_a_user_who_is_gone_has_no_file(tmp_path: Path) -> None:
    folder.write(tmp_path, KEYS)
    assert folder.write(tmp_path, documents.ready(with_pools(KEYS, ("default",)), NOW))
    assert not (tmp_path / "worker_etl.nk").exists()
    assert (tmp_path / "worker_default.nk").exists()


def test_what_is_no_keyring_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / folder.KEYRING
    assert folder.read(file) is None
    file.write_text('{"mode": "SUAPRIVATE"}')
    with pytest.raises(Refused) as caught:
        folder.read(file)
    assert "SUAPRIVATE" not in str(caught.value)

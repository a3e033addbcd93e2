"""Files of a login: one that cannot be read again is refused, and nobody waits for it."""

import os
from pathlib import Path

import pytest

from shared.bus.login.files import BadLogin, read_nkey


def test_a_pipe_is_no_file_of_a_key(tmp_path: Path) -> None:
    pipe = tmp_path / "key"
    os.mkfifo(pipe)
    with pytest.raises(BadLogin, match=r"NOETL_NATS_NKEY_FILE.*is not a file"):
        read_nkey(str(pipe))

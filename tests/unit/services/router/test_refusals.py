"""Where an answer may go: to an inbox, or to where the broker waits for it. The router may write where a caller may
not."""

import pytest

from services.router.refusals import is_inbox


@pytest.mark.parametrize("subject", ["_INBOX.me.1", "_INBOX_client.x.y", "_R_.Ab3dEf", "_R_.Ab3dEf.T"])
def test_an_answer_may_go_there(subject: str) -> None:
    assert is_inbox(subject)


@pytest.mark.parametrize("subject", ["", "_INBOX", "_R_", "_R_.", "_R_.>", "_R_.*", "_R_.a b", "_R_.a.b.c",
                                     "_R_x.a", "noetl.events.0.x.router", "$KV.noetl_pools.pool.x"])  # fmt: skip
def test_and_nowhere_else(subject: str) -> None:
    assert not is_inbox(subject)

"""Whether the broker of a stack accepts writes."""

import msgspec
import pytest

from services.cli.stack.broker_files import LEAST_BYTES, BrokerFiles, exhausted


@pytest.mark.parametrize(("limit", "used", "is_over"), [
    (-1, 10**9, False), (10 * LEAST_BYTES, 0, False), (10 * LEAST_BYTES, 9 * LEAST_BYTES + 1, True), (0, 0, True),
])
def test_an_account_at_its_limit_accepts_no_writes(limit: int, used: int, is_over: bool) -> None:
    assert bool(exhausted({"limits": {"max_storage": limit}, "storage": used})) == is_over


def test_the_files_of_an_embedded_broker_are_found_beside_its_context(tmp_path) -> None:
    (tmp_path / "nats").mkdir()
    (tmp_path / "nats" / "nats.conf").write_bytes(msgspec.json.encode({"jetstream": {"store_dir": str(tmp_path)}}))
    assert BrokerFiles(tmp_path).store() == tmp_path
    assert BrokerFiles().store() is None

"""Every code of JetStream has one meaning, and what passes is asked again."""

import pytest

from shared.bus.codes import MEANINGS, ApiError, NoMessage, NotFound, error_of, is_passing, meaning
from shared.errors import Conflict, Duplicate, NoetlError, Refused, Unavailable


@pytest.mark.parametrize(("error", "wanted"), [
    (ApiError(400, 10071, "wrong last sequence: 7"), Conflict),
    (ApiError(400, 10164, "wrong last sequence"), Conflict),
    (ApiError(503, 10077, "maximum messages per subject exceeded"), Duplicate),
    (ApiError(503, 10077, "maximum bytes exceeded"), Unavailable),
    (ApiError(503, 10077, "maximum messages exceeded"), Unavailable),
    (ApiError(503, 10077, "write /data/msgs/1.blk: no space left on device"), Unavailable),
    (ApiError(409, 10158, "duplicate message id is in process"), Unavailable),
    (ApiError(429, 10167, "too many requests"), Unavailable),
    (ApiError(400, 10002, "resource limits exceeded for account"), Unavailable),
    (ApiError(400, 10005, "no suitable peers for placement"), Unavailable),
    (ApiError(503, 10008, "JetStream system temporarily unavailable"), Unavailable),
    (ApiError(500, 10009, "JetStream cluster can not handle request"), Unavailable),
    (ApiError(500, 10118, "stream is offline"), Unavailable),
    (ApiError(500, 10052, "maximum age must be positive"), Refused),
    (ApiError(500, 10074, "replicas > 1 not supported in non-clustered mode"), Refused),
    (ApiError(500, 10111, "rollup not permitted"), Refused),
    (ApiError(400, 10054, "message size exceeds maximum allowed"), Refused),
    (ApiError(404, 10059, "stream not found"), NotFound),
    (ApiError(404, 10037, "no message found"), NoMessage),
    (ApiError(404, 99999, "something new"), NotFound),
    (ApiError(400, 99999, "something new"), Refused),
    (ApiError(500, 99999, "something new"), Unavailable),
])
def test_a_code_means(error: ApiError, wanted: type[NoetlError]) -> None:
    assert meaning(error) is wanted
    told = error_of(error, "a.subject")
    assert type(told) is wanted
    assert str(told) == f"a.subject: {error.description} ({error.err_code})"


@pytest.mark.parametrize(("error", "expected", "passing"), [
    (ApiError(400, 10071, "wrong last sequence: 6"), 7, True),   # the leader has not applied what it confirmed
    (ApiError(400, 10071, "wrong last sequence: 8"), 7, False),  # another writer was first
    (ApiError(400, 10071, "wrong last sequence: 6"), -1, False),
    (ApiError(400, 10164, "wrong last sequence"), 7, False),     # another writer is at it
    (ApiError(409, 10158, "duplicate message id is in process"), -1, True),
    (ApiError(503, 10163, "temporarily unavailable"), 7, True),
    (ApiError(429, 10167, "too many requests"), -1, True),
    (ApiError(503, 10008, "no leader"), -1, False),
])
def test_what_may_pass_in_a_moment_is_asked_again(error: ApiError, expected: int, passing: bool) -> None:
    assert is_passing(error, expected) is passing


def test_what_is_asked_again_is_never_refused_for_good() -> None:
    assert all(MEANINGS[code][1] is not Refused for code in (10158, 10163, 10167))

"""The short form of hostile input under load. The long one: python -m tests.chaos.hostile"""

from tests.chaos.hostile import hostile, options


async def test_what_nobody_should_send_stops_nobody_else() -> None:
    assert await hostile(options(["--rounds", "1", "--executions", "40", "--seed", "2"])) == []

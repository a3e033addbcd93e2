"""Cron expressions over local times without a zone: what a wall clock shows. Which instant of the
world that is, is decided elsewhere by the rule a schedule declares."""

from collections.abc import Iterator
from datetime import datetime

from cronsim import CronSim, CronSimError

MAX_CRON = 256
FIELDS = "minute hour day-of-month month day-of-week"
_SOME_DAY = datetime(2024, 1, 1)


def fault(expression: str) -> str:
    """What is wrong with the expression; empty when it is fine. One that never matches is wrong too."""
    fields = expression.split()
    if len(fields) != 5:
        return f"it has {len(fields)} field{'s' if len(fields) != 1 else ''}, and a cron expression has 5"
    try:
        next(CronSim(expression, _SOME_DAY))
    except StopIteration:
        return "no date ever matches it"
    except CronSimError as error:
        return str(error)[:1].lower() + str(error)[1:]
    except (AssertionError, TypeError, ValueError):  # combinations the parser does not foresee, as 5L/2
        return "it cannot be read"
    return ""


def matches(expression: str, after: datetime) -> Iterator[datetime]:
    """Every local time after the given one that the expression names, in order."""
    return CronSim(expression, after)

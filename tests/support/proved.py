"""`noetlctl verify --all` for the stacks of tests: whatever ran on one is proved before it goes down."""

from services.cli.verify.checker import Checker, Summary, everything
from services.cli.verify.read_model import ReadModel
from services.cli.verify.unfinished import watch
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Bus

WITHIN_S = 60.0


async def assert_all_right(bus: Bus, partitions: int, dsn: str = "") -> Summary:
    """`noetlctl verify --all`: every execution in the log is verified as far as it goes, something or someone can move
    those that are not over, and with a DSN its rows in the read model are those of the log. A stack whose log a test
    breaks on purpose is not asked, and says why."""
    async with ReadModel(dsn) as model:
        around = watch(bus, partitions) if isinstance(bus, JetStreamBus) else None
        summary = await everything(Checker(bus, partitions, model if dsn else None, WITHIN_S, around))
    wrong = [
        f"{verdict.execution_id} {verdict.path}: {verdict.reason} {'; '.join(map(str, verdict.violations[:3]))}"
        for verdict in summary.listed.values()
    ]
    assert wrong == [], "\n".join(wrong)
    if dsn:
        found = summary.projections()
        assert found.keys() <= {"same"}, (found, summary.reason)
    return summary

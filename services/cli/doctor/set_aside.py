"""Executions that a control service cannot continue, and has set aside."""

from collections.abc import Mapping, Sequence

from services.cli.doctor.finding import Finding, ok, problem
from services.cli.doctor.target import Patient
from shared.runtime.control import set_aside
from shared.runtime.control.set_aside import Aside

SHOWN = 5


async def look(patient: Patient) -> list[Finding]:
    return [found(await set_aside.every(patient.bus))]


def found(asides: Mapping[str, Sequence[Aside]]) -> Finding:
    if not asides:
        return ok("executions.aside", "no execution is set aside")
    named = [f"{execution} by the {each.service}: {each.reason}" for execution in sorted(asides)
             for each in asides[execution]]
    more = f"; and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return problem(
        "executions.aside", f"{len(asides)} set aside: {'; '.join(named[:SHOWN])}{more}",
        "no service goes on with them until it starts anew",
        "noetlctl why EXECUTION; after an upgrade they are tried again",
    )

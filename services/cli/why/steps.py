"""Whether an execution has a step of a name."""

from typing import TYPE_CHECKING

from services.cli.console import exits
from services.cli.console.exits import CliError

if TYPE_CHECKING:
    from services.cli.executions.logbook import Logbook


async def expect(book: "Logbook", step: str) -> None:
    """Exit code 7 when neither its playbook nor its log has it."""
    from shared.dsl.read.reader import nearest

    names = await _names(book)
    if step not in names:
        near = nearest(step, names)
        hint = f"did you mean {near}?" if near else f"it has {', '.join(sorted(names)) or 'none'}"
        raise CliError(f"execution {book.execution_id} has no step {step!r}: {hint}", exits.NOT_FOUND)


async def _names(book: "Logbook") -> set[str]:
    from shared.answers.history.summary import Summary
    from shared.errors import NoetlError

    summary = Summary(book.execution_id)
    for record in book.records:
        summary.apply(record)
    try:
        planned = set((await book.plans.load(summary.digest)).steps) if summary.digest else set()
    except NoetlError:  # its source is gone from the catalogue
        planned = set()
    return planned | set(summary.steps)

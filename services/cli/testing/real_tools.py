"""The tools of the kinds that a test lets run for real, opened on first use."""

import asyncio
from types import TracebackType
from typing import Self

from shared.answers.rehearsal.types import Need
from shared.events.failure import CONFIG
from shared.events.outcome import Outcome, failed
from shared.runtime.service.settings import read_settings
from shared.tools.base.contract import Call, ToolOptions, Waits
from shared.tools.toolbox import Tools

TIMEOUT_S = 60.0  # of one call


class RealTools:
    """Calls are made one after the other, on an event loop of their own."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        asked = read_settings()
        self._tools = Tools(ToolOptions(python_processes=1, duckdb_extensions=asked.duckdb_extensions,
                                        duckdb_files=asked.duckdb_files, scripts=asked.scripts,
                                        quantum_stand_ins=asked.quantum_stand_ins))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            self._runner.run(self._tools.close())
            self._runner.close()

    def call(self, need: Need) -> Outcome:
        if self._runner is None:
            self._runner = asyncio.Runner()
        made = self._runner.run(
            self._tools.get(need.kind).run(Call(need.config, need.spec, None, need.key, TIMEOUT_S)))
        return failed(CONFIG, f"kind {need.kind} does not answer") if isinstance(made, Waits) else made

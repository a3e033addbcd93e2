"""What is wrong with a playbook, as values: a stable code, the place, and the fix."""

from typing import Literal

from msgspec import Struct


class Diagnostic(Struct, frozen=True, order=True):
    line: int
    column: int
    code: str
    message: str
    fix: str
    file: str = ""
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        position = f"{self.file or '<playbook>'}:{self.line}:{self.column}"
        return f"{position}: {self.severity} {self.code}: {self.message} ({self.fix})"

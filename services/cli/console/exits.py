"""Exit codes of noetlctl, and the error that ends a command with one clear line."""

from shared.errors import NoetlError

OK = 0
ERROR = 1
USAGE = 2
INVALID = 3
FAILED = 4
CANCELLED = 5
TIMED_OUT = 6
NOT_FOUND = 7
CONFLICT = 8
INTERRUPTED = 130


class CliError(NoetlError):
    """What went wrong and what to do about it."""

    def __init__(self, message: str, code: int = ERROR) -> None:
        super().__init__(message)
        self.code = code

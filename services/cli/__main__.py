"""Where noetlctl begins. Ctrl-C while its modules are loaded is what it is later: one line, and its exit code. Another
one changes nothing: people press it twice, and the second may come while the first is dealt with."""

import signal
import sys
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    signal.signal(signal.SIGINT, _once)
    try:
        from services.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("noetlctl: interrupted\n")
        sys.exit(INTERRUPTED)
    run()


def _once(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGINT, _ignored)
    raise KeyboardInterrupt


def _ignored(_number: int, _frame: FrameType | None) -> None:
    """A function of ours, not SIG_IGN: that would be inherited by processes we start."""


if __name__ == "__main__":
    main()

"""Where noetlctl begins. Ctrl-C while its modules are loaded is what it is later: one line, and its exit code."""

import sys
from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    try:
        from services.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("noetlctl: interrupted\n")
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()

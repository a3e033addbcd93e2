"""Where noetlctl begins. Ctrl-C while its modules are loaded is what it is later: one line, and its exit code. Another
one changes nothing. What this file imports at its top cannot be interrupted so, and is next to nothing."""

import sys

INTERRUPTED = 130


def main() -> None:
    try:
        from services.cli.main import main as run
    except KeyboardInterrupt:
        import signal  # late: it takes a moment

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stderr.write("noetlctl: interrupted\n")
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()

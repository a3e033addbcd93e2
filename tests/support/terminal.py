"""What the long forms of tests print while they run."""

import sys


def say(line: str) -> None:
    """At once, also into a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()

"""Writes down what today's code says of recorded logs: `python -m tests.golden.expect [COMMIT…]`, all unless named.

What it said before and does not say now is printed. Whoever changes an answer on purpose reads these lines before the
files are committed: a line about a decision, a status, a result or a row is a defect, not a change.
"""

import argparse
import asyncio
import sys

from tests.golden import files
from tests.golden.answers import answers

MOST = 40  # lines about one version


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", metavar="COMMIT", default=None)
    for version in parser.parse_args().commits or files.versions():
        found = {name: asyncio.run(answers(files.recorded(version, name))) for name in files.logs(version)}
        changed = list(files.differences(files.answers(version), found)) if files.answers(version) else []
        path = files.expect(version, found)
        sys.stdout.write(f"{version}: {len(changed)} answers changed; {path.stat().st_size:,} bytes\n")
        sys.stdout.writelines(f"  {line}\n" for line in changed[:MOST])
    return 0


if __name__ == "__main__":
    sys.exit(main())

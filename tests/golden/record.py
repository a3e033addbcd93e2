"""Writes down what a version writes: `python -m tests.golden.record --code FOLDER`, a worktree of it (this one).

Worlds of its simulator in one process, and a stack of its own, `noetlctl up`, on which the playbooks of `books/` run.
What its broker holds in the end goes to `tests/golden/<commit>/`, byte for byte. Nothing is kept unless its own
`noetlctl verify --all` finds all of it right. Then `python -m tests.golden.expect <commit>`.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.golden import files
from tests.golden.stories import Version, stack_log
from tests.support.cli import environment
from tests.support.paths import ROOT

INSIDE = Path(__file__).parent / "inside" / "worlds.py"
SEEDS = 1000  # of which each version has one: together they have met more faults
LIMIT_S = 300.0


def inside(code: Path, what: str) -> bytes:
    """What the version says of itself."""
    environ = environment(PYTHONPATH=str(code), PYTHONHASHSEED="0")
    command = [sys.executable, str(INSIDE), what]
    done = subprocess.run(command, cwd=code, env=environ, capture_output=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{what}: {done.stderr.decode()}")
    return done.stdout


def commit_of(code: Path) -> str:
    command = ["git", "-C", str(code), "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--code", type=Path, default=ROOT)
    options = parser.parse_args()
    code = options.code.resolve()
    version = commit_of(code)
    if (files.FOLDER / version / files.FIELDS).exists():
        raise SystemExit(f"{version} is recorded: what an earlier version wrote does not change")
    seed = int(version, 16) % SEEDS
    worlds = {"faults": str(seed), "peace": "peace"}
    made = [files.record(version, name, inside(code, what)) for name, what in worlds.items()]
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        made.append(files.record(version, "stack", asyncio.run(stack_log(Version(code, Path(folder))))))
    (files.FOLDER / version / files.FIELDS).write_bytes(inside(code, "fields"))
    for path in made:
        sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

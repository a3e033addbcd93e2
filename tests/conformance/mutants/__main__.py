"""Takes clauses of the language away, one after the other, and prints which tests noticed.

    python -m tests.conformance.mutants              # those of CI
    python -m tests.conformance.mutants --stack      # and those that need a whole stack: a minute each
    python -m tests.conformance.mutants "no match"   # those whose name has it
"""

import argparse
import subprocess
import sys
import time

from tests.conformance.mutants import on_stack, proof
from tests.conformance.mutants.mutant import Mutant
from tests.conformance.mutants.plugin import KILLED
from tests.conformance.mutants.tables import EVERY, QUICK
from tests.support.paths import ROOT
from tests.support.terminal import say


def is_killed(name: str, mutant: Mutant) -> bool:
    if name in QUICK:
        with mutant.alive():
            return proof.fails(mutant.test)
    plugin = ["-p", "tests.conformance.mutants.plugin", "--mutant", name]
    asked = [sys.executable, "-m", "pytest", *plugin, mutant.test]
    return subprocess.run(asked, cwd=ROOT, check=False, stdout=subprocess.DEVNULL).returncode == KILLED


def is_healthy(names: list[str]) -> bool:
    """The tests pass as the product is."""
    stack = [EVERY[name].test for name in names if name in on_stack.MUTANTS]
    if stack and subprocess.run([sys.executable, "-m", "pytest", *stack], cwd=ROOT, check=False).returncode:
        return False
    return not any(proof.fails(EVERY[name].test) for name in names if name in QUICK)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.mutants")
    parser.add_argument("name", nargs="?", default="", help="a part of the names of the mutants wanted")
    parser.add_argument("--stack", action="store_true", help="also those that need a whole stack")
    asked = parser.parse_args()
    names = [name for name in (EVERY if asked.stack else QUICK) if asked.name in name]
    if not is_healthy(names):
        say("tests fail without a mutant")
        return 2
    alive = []
    for name in names:
        began = time.monotonic()
        killed = is_killed(name, EVERY[name])
        alive += [] if killed else [name]
        took = f"{time.monotonic() - began:6.2f} s"
        say(f"{'killed' if killed else 'ALIVE '} {took}  {', '.join(EVERY[name].clauses):36}  {name}")
    say(f"{len(names) - len(alive)} of {len(names)} clauses taken away were noticed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())

"""python -m tests.property.fuzz <wire|records|requests|beats|templates|playbooks|all> --seconds 3600 --seed 1

With `--case N` that one alone. Prints cases a second, what became of them and the slowest; exits with 1 when a promise
is broken, and says how to get the case again, or when no case came to what some must.
"""

import argparse
import sys
from collections import Counter
from importlib import import_module

from tests.property.fuzz.runner import SHOWN, Broken, Fuzzer, fuzz, made, one

NAMES = ("wire", "records", "requests", "beats", "templates", "playbooks")


def fuzzer(name: str) -> Fuzzer:
    found: Fuzzer = import_module(f"tests.property.fuzz.{name}").FUZZER
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.property.fuzz", description=__doc__)
    parser.add_argument("name", choices=(*NAMES, "all"))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each fuzzer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="this one alone, shown whole")
    parser.add_argument("--shown", type=int, default=SHOWN, help="how many of the slowest are shown")
    given = parser.parse_args()
    failed = False
    for name in NAMES if given.name == "all" else (given.name,):
        try:
            if given.case is not None:
                told = alone(fuzzer(name), given.seed, given.case)
            else:
                report = fuzz(fuzzer(name), given.seed, given.seconds, given.shown)
                failed, told = failed or bool(report.missed), str(report)
        except Broken as broken:
            failed, told = True, str(broken)
            sys.excepthook(type(broken), broken, broken.__traceback__)
        sys.stdout.write(told + "\n")
        sys.stdout.flush()
    return int(failed)


def alone(fuzzer: Fuzzer, seed: int, number: int) -> str:
    sys.stdout.write(fuzzer.show(made(fuzzer, seed, number)) + "\n")
    kinds = Counter[str]()
    cost = one(fuzzer, seed, number, kinds)
    return f"{fuzzer.name}: case {number} of seed {seed}: {', '.join(kinds)}; {cost.seconds * 1e3:.1f} ms"


if __name__ == "__main__":
    sys.exit(main())

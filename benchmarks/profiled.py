"""`python -m benchmarks.profiled FILE MODULE`: runs a module under cProfile by CPU time, so that waiting
for a core on a busy machine is not taken for work."""

import cProfile
import runpy
import sys
import time


def main() -> None:
    file, module = sys.argv[1:3]
    sys.argv = [module]
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        profile.disable()
        profile.dump_stats(file)


if __name__ == "__main__":
    main()

"""Every alert, fired by a real fault: python -m tests.deploy.alerts [--divide 60] [--only wrong_clock]

A stack as `noetlctl up` runs it is scraped by a real Prometheus (Debian's package), whose rules are those of
deploy/observability with every `for` divided by `--divide`: what has to last for 5 minutes lasts for 5 seconds. At rest
none may fire. Then one fault after another is provoked (`alert_faults.py`), and each has to fire its alerts.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from shared.runtime.service import targets
from tests.deploy.alert_faults import FAULTS, World
from tests.deploy.metrics import rules
from tests.deploy.prometheus import SCRAPE_S, Prometheus
from tests.support.cli import Up
from tests.support.pool_ctl import Ctl
from tests.support.terminal import say
from tests.support.waiting import wait_until

FIRES_S = 180.0
REST_S = 5 * SCRAPE_S
SERVICES = 6  # of the stack, and the lone router


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy.alerts", description=__doc__)
    parser.add_argument("--divide", type=float, default=60.0, help="every `for` of the rules by this (60)")
    parser.add_argument("--only", action="append", default=[], choices=[fault.__name__ for fault in FAULTS])
    asked = parser.parse_args()
    assert {name for names in FAULTS.values() for name in names} == {rule["alert"] for rule in rules()}
    assert shutil.which("prometheus"), "no prometheus: `apt install prometheus` has it"
    folder = Path(tempfile.mkdtemp(prefix="noetl-alerts-"))
    up = Up(folder, NOETL_TARGETS=str(folder / ".noetl" / targets.FOLDER))
    try:
        up.wait()
        missing = provoked(World(Ctl(up), folder), folder, asked.divide, asked.only)
    finally:
        up.stop()
    if missing:
        say(f"not fired: {', '.join(missing)}; logs are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def provoked(world: World, folder: Path, divide: float, only: list[str]) -> list[str]:
    """Those that did not fire."""
    prometheus, missing = Prometheus(folder, world.targets, divide), list[str]()
    with world.lone_router(), prometheus.running():
        wait_until(prometheus.targets, "everybody is scraped", 60,
                   so=lambda found: list(found.values()) == ["up"] * SERVICES, every_s=1.0)
        time.sleep(REST_S)
        early = prometheus.firing()
        assert not early, f"at rest: {early}"
        say(f"{len(prometheus.targets())} services are scraped, and no alert fires")
        for fault, names in FAULTS.items():
            if only and fault.__name__ not in only:
                continue
            began = time.monotonic()
            undo = fault(world)
            missing += [name for name in names if not fired(prometheus, name, fault.__name__, began)]
            undo()
    return missing


def fired(prometheus: Prometheus, name: str, fault: str, began: float) -> bool:
    try:
        found = wait_until(prometheus.firing, f"{name} fires", FIRES_S, so=lambda firing: name in firing, every_s=0.5)
    except AssertionError as error:
        say(f"✗ {fault:24} {name:26} {error}")
        return False
    say(f"✓ {fault:24} {name:26} after {time.monotonic() - began:3.0f} s: {found[name]}")
    return True


if __name__ == "__main__":
    sys.exit(main())

"""Nothing that decides asks a machine what time it is: it would be another time on the next machine."""

import re

from tests.support.paths import ROOT

WALL = re.compile(r"\btime\.time\b|\btime_ns\b|\bfrom time import\b|\b(datetime|date)\.(now|utcnow|today)\b")
HOLDERS = ("services/router", "services/scheduler", "services/worker", "services/pools", "services/projector",
           "shared/bus", "shared/runtime", "shared/tools", "shared/answers", "shared/engine", "shared/dsl",
           "shared/events")
ALLOWED = {
    "shared/runtime/service/clock.py": "the one place where it is compared with the broker's",
    "shared/tools/gcs/access.py": "a sign-in at Google says when it was made, by a right clock",
}


def test_no_service_asks_its_machine_what_time_it_is() -> None:
    files = [file for holder in HOLDERS for file in sorted((ROOT / holder).rglob("*.py"))]
    assert len(files) > 200
    found = {str(file.relative_to(ROOT)) for file in files if WALL.search(file.read_text())}
    assert found == set(ALLOWED)

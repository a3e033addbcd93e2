"""A real Prometheus on the alerts, in a hurry: whatever has to stay true for minutes, for as many seconds."""

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from shared.runtime.embedded.nats_server import HOST, free_port
from tests.deploy.metrics import OBSERVABILITY
from tests.support.waiting import wait_until

SECONDS = {"s": 1, "m": 60, "h": 3600}
SCRAPE_S = 2


def divided(rules: dict[str, Any], by: float) -> dict[str, Any]:
    """The rules, with every `for` divided; what they look at, and how long back, stays as it is."""
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                number, unit = re.fullmatch(r"(\d+)([smh])", rule["for"]).groups()  # type: ignore[union-attr]
                rule["for"] = f"{max(1, round(int(number) * SECONDS[unit] / by))}s"
    return rules


class Prometheus:
    def __init__(self, folder: Path, targets: Path, by: float) -> None:
        self.folder, self.address = folder, f"{HOST}:{free_port()}"
        rules = yaml.safe_load((OBSERVABILITY / "rules.yaml").read_text(encoding="utf-8"))
        (folder / "rules.yaml").write_text(yaml.safe_dump(divided(rules, by)), encoding="utf-8")
        config = yaml.safe_load((OBSERVABILITY / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": f"{SCRAPE_S}s", "scrape_timeout": f"{SCRAPE_S}s",
                            "evaluation_interval": "1s"}
        config["scrape_configs"][0]["file_sd_configs"] = [{"files": [f"{targets}/*.json"], "refresh_interval": "1s"}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")

    @contextmanager
    def running(self) -> Iterator[None]:
        program = shutil.which("prometheus")
        assert program, "no prometheus: `apt install prometheus` has it"
        arguments = (f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                     f"--web.listen-address={self.address}", "--log.level=warn")
        with (self.folder / "prometheus.log").open("wb") as log:
            process = subprocess.Popen([program, *arguments], stdout=log, stderr=log, cwd=self.folder)
        try:
            wait_until(self._is_up, "Prometheus answers", despite=(OSError,),
                       instead=(self.folder / "prometheus.log").read_text)
            yield
        finally:
            process.terminate()
            process.wait(20)

    def _is_up(self) -> bool:
        return bool(self._asked("targets")["activeTargets"])

    def _asked(self, what: str) -> Any:
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{what}", timeout=10) as answer:
            return json.loads(answer.read())["data"]

    def targets(self) -> dict[str, str]:
        """Whether each could be scraped, by name."""
        return {each["labels"]["instance"]: each["health"] for each in self._asked("targets")["activeTargets"]}

    def firing(self) -> dict[str, str]:
        """What is said of each alert that fires, by its name."""
        return {each["labels"]["alertname"]: each["annotations"]["summary"] for each in self._asked("alerts")["alerts"]
                if each["state"] == "firing"}

"""What services tell on `/metrics`, and what the dashboard and the alerts ask of it."""

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.support.paths import ROOT

OBSERVABILITY = ROOT / "deploy/observability"
NAME = re.compile(r"\b(?:noetl|process)_\w+|\bup\b")
_GROUPED = re.compile(r"\b(?:by|on|ignoring|without) \(([^)]*)\)")
_SELECTED = re.compile(r"(\w+)\{([^}]*)\}")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
_STRING = re.compile(r"\"[^\"]*\"")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((OBSERVABILITY / "rules.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((OBSERVABILITY / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    return [each for each in found if each["type"] != "row"]


def expressions() -> dict[str, str]:
    """By whose they are: every one of the alerts and the dashboard."""
    found = {rule["alert"]: rule["expr"] for rule in rules()}
    for panel in panels():
        found |= {f"{panel['title']} {target['refId']}": target["expr"] for target in panel["targets"]}
    return found


def named(expression: str) -> set[str]:
    """The metrics it reads."""
    bare = _GROUPED.sub("", _STRING.sub('""', expression))
    return set(NAME.findall(bare))


def selected(expression: str) -> Iterator[tuple[str, str]]:
    """Metric and label, of the labels by which it chooses."""
    for metric, chosen in _SELECTED.findall(expression):
        for label in _LABEL.findall(chosen):
            yield metric, label


def grouped(expression: str) -> set[str]:
    """The labels by which it adds up or joins."""
    return {label.strip() for labels in _GROUPED.findall(expression) for label in labels.split(",")}


def targets(folder: Path) -> dict[str, str]:
    """Addresses of a stack, by name."""
    found = [each for file in sorted(folder.glob("*.json")) for each in json.loads(file.read_text())]
    return {each["labels"]["instance"]: each["targets"][0] for each in found}


def scraped(address: str) -> list[Sample]:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]

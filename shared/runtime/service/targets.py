"""Files that tell a Prometheus where processes of this machine answer `/metrics` (its `file_sd_configs`)."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

FOLDER = "targets"  # of a stack
SERVICES, WORKERS = "services.json", "workers.json"


def write(file: Path, addresses: Mapping[str, str]) -> None:
    """By the name that each one has as `instance`. Whoever reads it meanwhile sees the old or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    found = [{"targets": [address], "labels": {"instance": name}} for name, address in sorted(addresses.items())]
    beside = file.with_suffix(".new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    os.replace(beside, file)


def remove(file: Path) -> None:
    with suppress(FileNotFoundError):
        file.unlink()

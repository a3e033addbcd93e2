"""Versions of the broker, of this program and of the libraries it uses."""

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version

from services.cli.doctor.finding import Finding, ok, problem, warning
from services.cli.doctor.target import Patient
from shared.bus import api
from shared.bus.codes import NotFound
from shared.errors import Refused, Unavailable

NEEDED = (2, 11)   # batches of direct reads
TESTED = (2, 15)
PYTHON = (3, 11)
CLIENT = (2, 16)   # shared/bus/wire.py replaces parts of this one
PAYLOAD_BYTES = 1_048_576
_NUMBERS = re.compile(r"(\d+)\.(\d+)")


async def look(patient: Patient) -> list[Finding]:
    info = patient.bus.connection._server_info
    return [
        server(str(info.get("version", ""))),
        payload(int(info.get("max_payload", 0))),
        await _jetstream(patient),
        client(_installed("nats-py")),
        python(sys.version_info[:2]),
        ok("version.package", f"noetl-jetstream {_installed('noetl-jetstream')} on {platform.platform(terse=True)}"),
    ]


def server(text: str) -> Finding:
    name, found = "broker.version", f"nats-server {text or 'of unknown version'}"
    has = _pair(text)
    if has is None or has < NEEDED:
        return problem(name, found, f"reads need {_dotted(NEEDED)} or newer", f"install nats-server {_dotted(TESTED)}")
    if has < TESTED:
        why = f"the engine is tested on {_dotted(TESTED)}; what an older server does is not known"
        return warning(name, found, why, f"install nats-server {_dotted(TESTED)}")
    return ok(name, found + ("" if has == TESTED else f", newer than the tested {_dotted(TESTED)}"))


def payload(limit: int) -> Finding:
    name, found = "broker.max_payload", f"messages of up to {limit} bytes"
    if limit < PAYLOAD_BYTES:
        why = f"records, parts of results and playbooks have up to {PAYLOAD_BYTES} bytes and would be refused"
        return problem(name, found, why, "set max_payload: 1MB in the server's configuration")
    return ok(name, found)


async def _jetstream(patient: Patient) -> Finding:
    try:
        info = await patient.bus.requests.api(api.INFO)
    except (NotFound, Refused, Unavailable) as error:
        return jetstream(str(error))
    return jetstream("", int(info["streams"]), int(info["consumers"]))


def jetstream(error: str, streams: int = 0, consumers: int = 0) -> Finding:
    name = "broker.jetstream"
    if error:
        fix = "set `jetstream: enabled` on the account NOETL and a store_dir on the server"
        return problem(name, f"not available: {error}", "the log is kept by JetStream", fix)
    return ok(name, f"enabled: {streams} streams, {consumers} consumers")


def client(text: str) -> Finding:
    name, found = "version.client", f"nats-py {text or 'not installed'}"
    if _pair(text) != CLIENT:
        why = "its parser is replaced by the engine's, which fits this version alone"
        return problem(name, found, why, f"pip install 'nats-py=={_dotted(CLIENT)}.*'")
    return ok(name, found)


def python(has: tuple[int, int]) -> Finding:
    name, found = "version.python", f"Python {_dotted(has)}"
    if has < PYTHON:
        return problem(name, found, f"{_dotted(PYTHON)} or newer is needed", f"use Python {_dotted(PYTHON)} or newer")
    return ok(name, found)


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _pair(text: str) -> tuple[int, int] | None:
    found = _NUMBERS.match(text)
    return (int(found[1]), int(found[2])) if found else None


def _dotted(pair: tuple[int, int]) -> str:
    return f"{pair[0]}.{pair[1]}"

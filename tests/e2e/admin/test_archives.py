"""A backup is read and proved where no stack is: as it is, packed, and damaged."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from services.cli.console import exits
from shared.runtime.backup import archive
from tests.support.cli import Result, run
from tests.support.running import running
from tests.support.waiting import wait_until

LARGE = """
  - step: start
    tool: {kind: python, code: "result = {'text': 'x' * 300000}"}
    next: {arcs: [{step: size}]}
  - {step: size, tool: {kind: noop, args: {size: "{{ start.text | length }}"}}}
"""
APPROVAL = "\n  - {step: start, tool: {kind: signal, signal: approval}}\n"
EDITED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: large}
workflow:
  - step: start
    tool: {kind: python, code: "result = {'text': 'x' * 300000}"}
    next: {arcs: [{step: other}]}
  - {step: other, tool: {kind: noop}}
"""


class Archived(Struct):
    folder: Path
    large: str
    waiting: str
    events: list[str]  # of `large`, as the stack told them


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="noetl-archived-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def archived(home: Path) -> Archived:
    return asyncio.run(_archived(home))


async def _archived(home: Path) -> Archived:
    async with running(home / "stack") as stack:
        await stack.register("large", LARGE)
        await stack.register("approval", APPROVAL)
        large, waiting = await stack.start("large"), await stack.start("approval")
        assert (await stack.ended(large)).status == "completed"
        at = ("--context", str(stack.context_file))
        events = await asyncio.to_thread(run, "events", large, *at, cwd=home)
        saved = await asyncio.to_thread(run, "admin", "backup", str(home / "backup"), *at, cwd=home)
        assert saved.returncode == exits.OK, saved.stderr
    return Archived(home / "backup", large, waiting, events.stdout.splitlines())


def read(command: str, *args: str, of: Path) -> Result:
    return run(command, *args, "--archive", str(of), cwd=of.parent)


def test_every_history_in_an_archive_is_proved(archived: Archived) -> None:
    done = read("verify", "--all", "-o", "json", of=archived.folder)
    assert done.returncode == exits.OK, done.stderr
    told = json.loads(done.stdout)
    assert (told["executions"], told["verified"], told["unfinished"]) == (2, 1, 1)
    one = read("verify", archived.large, "-o", "json", of=archived.folder / archive.MANIFEST)
    assert json.loads(one.stdout)["verdict"] == "verified"


def test_events_of_an_archive_are_those_of_the_stack(archived: Archived) -> None:
    done = read("events", archived.large, of=archived.folder)
    assert done.returncode == exits.OK, done.stderr
    assert done.stdout.splitlines() == archived.events
    assert read("events", "nobody", of=archived.folder).returncode == exits.NOT_FOUND


def test_an_archive_is_replayed_with_its_stored_values(archived: Archived) -> None:
    done = read("replay", archived.large, "-o", "json", of=archived.folder)
    assert done.returncode == exits.OK, done.stderr
    assert json.loads(done.stdout)["identical"] == 1
    edited = archived.folder.parent / "edited.yaml"
    edited.write_text(EDITED)
    done = read("replay", "--playbook", "large", "--against", str(edited), "-o", "json", of=archived.folder)
    assert done.returncode == exits.ERROR, done.stdout
    assert json.loads(done.stdout)["diverges"] == 1


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_packed_archive_is_read_as_it_is(archived: Archived, tmp_path: Path, mode: str) -> None:
    packed = tmp_path / "backup.tar"
    with tarfile.open(packed, mode) as file:  # type: ignore[call-overload]
        file.add(archived.folder, "monday")
    done = read("verify", archived.large, of=packed)
    assert done.returncode == exits.OK, done.stderr


def damaged(archived: Archived, tmp_path: Path) -> Path:
    return Path(shutil.copytree(archived.folder, tmp_path / "damaged"))


def refused(place: Path, why: str) -> None:
    for command in (("verify", "--all"), ("events", "any"), ("replay", "any")):
        done = read(*command, of=place)
        assert done.returncode == exits.INVALID, (done.stdout, done.stderr)
        assert why in done.stderr, done.stderr


def test_a_flipped_byte_is_refused_with_its_place(archived: Archived, tmp_path: Path) -> None:
    place = damaged(archived, tmp_path)
    file = place / "NOETL_EVENTS_1.s2"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    refused(place, f"NOETL_EVENTS_1.s2 is damaged: from byte 0 to {len(data)} it is not what was written")


def test_a_missing_chunk_is_refused_with_its_place(archived: Archived, tmp_path: Path) -> None:
    place = damaged(archived, tmp_path)
    file = place / "NOETL_RESULTS.s2"
    data = file.read_bytes()
    file.write_bytes(data[:-100])
    refused(place, f"{len(data) - 100} bytes instead of {len(data)}")
    file.unlink()
    refused(place, "NOETL_RESULTS.s2 is missing")


def test_a_log_that_misses_a_stream_is_refused(archived: Archived, tmp_path: Path) -> None:
    place = damaged(archived, tmp_path)
    manifest = archive.read(place)
    (place / archive.MANIFEST).unlink()
    archive.finish(place, replace(manifest, parts=[p for p in manifest.parts if p.stream != "NOETL_EVENTS_3"]))
    (place / "NOETL_EVENTS_3.s2").unlink()
    refused(place, "its manifest has no NOETL_EVENTS_3")


@pytest.mark.parametrize(("partitions", "why"), [(0, "says 0 partitions"), (-1, "says -1"), (3, "says 3 partitions")])
def test_a_log_of_other_partitions_is_refused(archived: Archived, tmp_path: Path, partitions: int, why: str) -> None:
    place = damaged(archived, tmp_path)
    manifest = archive.read(place)
    (place / archive.MANIFEST).unlink()
    archive.finish(place, replace(manifest, partitions=partitions))
    refused(place, why)


def test_what_the_broker_does_not_take_is_refused(archived: Archived, tmp_path: Path) -> None:
    place = damaged(archived, tmp_path)
    manifest, data = archive.read(place), b"not what a broker writes"
    for file in (archive.MANIFEST, "NOETL_EVENTS_0.s2"):
        (place / file).unlink()
    with archive.writing(place / "NOETL_EVENTS_0.s2") as (write, written):
        write(data)
    parts = [part if part.stream != "NOETL_EVENTS_0" else replace(
        part, bytes=written.bytes, sha256=written.sha256, pieces=written.pieces) for part in manifest.parts]
    archive.finish(place, replace(manifest, parts=parts))
    refused(place, "NOETL_EVENTS_0.s2 cannot be opened")


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel to end it")
def test_a_command_that_is_killed_leaves_no_server(archived: Archived, tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    words = [sys.executable, "-m", "services.cli", "verify", "--all", "--archive", str(archived.folder)]
    command = subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: servers_in(tmp_path), "its server runs", every_s=0.02)
    command.send_signal(signal.SIGHUP)
    command.wait(10)
    wait_until(lambda: servers_in(tmp_path), "it is gone", so=lambda found: not found)


def servers_in(folder: Path) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder).encode() in (line := file.read_bytes()) and b"nats-server" in line.split(b"\0")[0]:
                found.append(file.parent.name)
    return found


def test_what_is_no_archive_is_refused(archived: Archived, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no tar")
    refused(tmp_path / "text", "is not a tar file")
    refused(tmp_path, "it has no manifest.json")
    follow = read("events", archived.large, "--follow", of=archived.folder)
    assert (follow.returncode, "an archive has no more" in follow.stderr) == (exits.USAGE, True)

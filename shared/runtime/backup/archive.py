"""A backup on disk: a folder with one file for each stream, as the broker made it, and a manifest that is written last.
Without a manifest it is no backup; a file that is not exactly what the manifest says is refused."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from shared.errors import Corrupt, Refused
from shared.runtime.backup.snapshot import CHUNK_BYTES, Saved

FORMAT = 1
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 4 * 1_048_576
_FILE = re.compile(r"[A-Za-z0-9_-]{1,128}\.s2")


class Part(Struct, frozen=True):
    """The file of one stream. `saved` is what the broker said of it: no message before that is missing."""

    stream: str
    file: str
    bytes: int
    sha256: str
    saved: Saved

    @property
    def messages(self) -> int:
        return int(self.saved.state["messages"])

    @property
    def last_seq(self) -> int:
        return int(self.saved.state["last_seq"])


class Requests(Struct, frozen=True):
    """How far the requests were before the log was read: `epoch` is when their stream was made (it goes into the
    ids of executions), and all up to `handled` had been handled."""

    epoch: int
    handled: int


class Manifest(Struct, frozen=True):
    format: int
    made_at: str
    version: str
    server: str
    partitions: int
    secrets: bool
    requests: Requests
    parts: list[Part]

    def part(self, stream: str) -> Part | None:
        return next((part for part in self.parts if part.stream == stream), None)


class Written(Struct):
    bytes: int = 0
    sha256: str = ""


def create(folder: Path) -> None:
    """The folder must be new or empty: a backup is never written over another."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if any(folder.iterdir()):
        raise Refused(f"{folder} is not empty: give a new folder")


@contextmanager
def writing(path: Path) -> Iterator[tuple[Callable[[bytes], None], Written]]:
    """Its owner's alone, and on disk when the block ends."""
    written, digest = Written(), hashlib.sha256()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:

        def write(data: bytes) -> None:
            file.write(data)
            digest.update(data)
            written.bytes += len(data)

        yield write, written
        written.sha256 = digest.hexdigest()
        file.flush()
        os.fsync(file.fileno())


def finish(folder: Path, manifest: Manifest) -> None:
    with writing(folder / MANIFEST) as (write, _):
        write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def read(folder: Path) -> Manifest:
    """Corrupt when it is no backup of this kind."""
    path = folder / MANIFEST
    if not path.is_file():
        raise Corrupt(f"{folder} is not a backup: it has no {MANIFEST} (one that was cut short has none)")
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        raise Corrupt(f"{path} has over {MAX_MANIFEST_BYTES} bytes")
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{path} cannot be read: {error}") from None
    if manifest.format != FORMAT:
        raise Corrupt(f"{path} has format {manifest.format}; this build reads {FORMAT}")
    for part in manifest.parts:
        if not _FILE.fullmatch(part.file):
            raise Corrupt(f"{path} names a file {part.file!r}")
    return manifest


def check(folder: Path, manifest: Manifest) -> None:
    """Every file is there, whole and unchanged."""
    for part in manifest.parts:
        path, digest, size = folder / part.file, hashlib.sha256(), 0
        if not path.is_file():
            raise Corrupt(f"{path} is missing")
        for chunk in chunks(path):
            digest.update(chunk)
            size += len(chunk)
        if (size, digest.hexdigest()) != (part.bytes, part.sha256):
            raise Corrupt(f"{path} is damaged: {size} bytes instead of {part.bytes}, or others than were written")


def chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk

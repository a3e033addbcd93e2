"""A backup on disk: a folder with one file for each stream, as the broker made it, and a manifest that is written last.
Without a manifest it is no backup; a file that is not exactly what the manifest says is refused, and so is a manifest
that is not what was written, or not of these files. Earlier backups have no checksums of pieces and of the manifest."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shared.errors import Corrupt, Refused
from shared.runtime.backup import pieces
from shared.runtime.backup.snapshot import CHUNK_BYTES, Saved

FORMAT = 1
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 4 * 1_048_576
_FILE = re.compile(r"[A-Za-z0-9_-]{1,128}\.s2")


class Part(Struct, frozen=True):
    """The file of one stream. `saved` is what the broker said of it: no message before that is missing. `pieces` are
    checksums of its parts, in their order."""

    stream: str
    file: str
    bytes: int
    sha256: str
    saved: Saved
    pieces: tuple[str, ...] = ()

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
    checksum: str = ""  # of this manifest without it

    def part(self, stream: str) -> Part | None:
        return next((part for part in self.parts if part.stream == stream), None)


class Written(Struct):
    bytes: int = 0
    sha256: str = ""
    pieces: tuple[str, ...] = ()


def is_file_name(name: str) -> bool:
    return _FILE.fullmatch(name) is not None


def create(folder: Path) -> None:
    """The folder must be new or empty: a backup is never written over another."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if any(folder.iterdir()):
        raise Refused(f"{folder} is not empty: give a new folder")


@contextmanager
def writing(path: Path) -> Iterator[tuple[Callable[[bytes], None], Written]]:
    """Its owner's alone, and on disk when the block ends."""
    written, digest, sums = Written(), hashlib.sha256(), pieces.Pieces()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:

        def write(data: bytes) -> None:
            file.write(data)
            digest.update(data)
            sums.add(data)
            written.bytes += len(data)

        yield write, written
        written.sha256, written.pieces = digest.hexdigest(), sums.sums()
        file.flush()
        os.fsync(file.fileno())


def finish(folder: Path, manifest: Manifest) -> None:
    whole = replace(manifest, checksum=_checksum(msgspec.to_builtins(manifest)))
    with writing(folder / MANIFEST) as (write, _):
        write(msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n")


def _checksum(manifest: Mapping[str, Any]) -> str:
    """Also of keys that this build does not know."""
    rest = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(msgspec.json.encode(rest, order="sorted")).hexdigest()


def read(folder: Path) -> Manifest:
    """Corrupt when it is no backup of this kind."""
    path = folder / MANIFEST
    if not path.is_file():
        raise Corrupt(f"{folder} is not a backup: it has no {MANIFEST} (one that was cut short has none)")
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        raise Corrupt(f"{path} has over {MAX_MANIFEST_BYTES} bytes")
    try:
        raw = msgspec.json.decode(path.read_bytes())
        manifest = msgspec.convert(raw, Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Corrupt(f"{path} cannot be read: {error}") from None
    if manifest.format != FORMAT:
        raise Corrupt(f"{path} has format {manifest.format}; this build reads {FORMAT}")
    for part in manifest.parts:
        if not is_file_name(part.file):
            raise Corrupt(f"{path} names a file {part.file!r}")
    summed = manifest.checksum or any(part.pieces for part in manifest.parts)
    if summed and manifest.checksum != _checksum(raw):
        raise Corrupt(f"{path} is damaged: it is not what was written (its own checksum says so)")
    _check_names(path, manifest)
    return manifest


def _check_names(path: Path, manifest: Manifest) -> None:
    seen = set[str]()
    for part in manifest.parts:
        if part.stream in seen or part.file in seen:
            raise Corrupt(f"{path} names {part.stream} or its file {part.file} twice")
        seen |= {part.stream, part.file}
        if (name := part.saved.config.get("name")) != part.stream:
            raise Corrupt(f"{path} says of {part.stream} what the broker said of {name}")


def check(folder: Path, manifest: Manifest) -> None:
    """Every file is there, whole and unchanged, and no other."""
    there = {path.name for path in folder.glob("*.s2")}
    if unnamed := sorted(there - {part.file for part in manifest.parts}):
        raise Corrupt(f"{folder / MANIFEST} does not name {unnamed[0]}: it is the manifest of another backup")
    for part in manifest.parts:
        if not (folder / part.file).is_file():
            raise Corrupt(f"{folder / part.file} is missing")
    damaged = [part for part in manifest.parts if not _is_whole(folder / part.file, part)]
    if not damaged:
        return
    if len(damaged) == len(manifest.parts) > 1:
        raise Corrupt(f"{folder / MANIFEST} is the manifest of another backup: no file here is as it says")
    first = damaged[0]
    raise Corrupt("; ".join([_damage(folder / first.file, first), *(f"{part.file} too" for part in damaged[1:])]))


def _is_whole(path: Path, part: Part) -> bool:
    if path.stat().st_size != part.bytes:
        return False
    digest = hashlib.sha256()
    for chunk in chunks(path):
        digest.update(chunk)
    return digest.hexdigest() == part.sha256


def _damage(path: Path, part: Part) -> str:
    size = path.stat().st_size
    where = pieces.where(path, part.pieces) if part.pieces else ""
    length = "" if size == part.bytes else f"{size} bytes instead of {part.bytes}"
    what = ", ".join(filter(None, [where, length])) or "its bytes are not those that were written"
    return f"{path} is damaged: {what}"


def chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk

"""A backup on disk: whole and unchanged, or refused with the reason."""

import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared.bus import topology
from shared.bus.ports import Message
from shared.errors import Corrupt, Refused
from shared.events.request import derive_id
from shared.runtime.backup import archive, backup, pieces
from shared.runtime.backup.archive import FORMAT, Manifest, Part, Requests
from shared.runtime.backup.restore import check, derived_id
from shared.runtime.backup.snapshot import Saved

STATE = {"messages": 2, "first_seq": 1, "last_seq": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A backup of one stream."""
    place = tmp_path / "backup"
    archive.create(place)
    with archive.writing(place / "A.s2") as (write, written):
        write(b"one")
        write(b"two")
    part = Part("A", "A.s2", written.bytes, written.sha256, Saved({"name": "A"}, STATE), written.pieces)
    archive.finish(place, Manifest(
        format=FORMAT, made_at="now", version="1", server="2.15.1", partitions=4, secrets=False,
        requests=Requests(1, 0), parts=[part],
    ))
    return place


def without_sums(path: Path) -> dict[str, Any]:
    """A manifest as earlier versions wrote it."""
    manifest: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    del manifest["checksum"]
    for part in manifest["parts"]:
        del part["pieces"]
    return manifest


def test_a_backup_that_is_whole_is_read_back(folder: Path) -> None:
    manifest = archive.read(folder)
    archive.check(folder, manifest)
    part = manifest.part("A")
    assert part is not None
    assert (part.bytes, part.messages, part.last_seq) == (6, 2, 2)
    assert manifest.part("B") is None
    assert b"".join(archive.chunks(folder / "A.s2")) == b"onetwo"


def test_only_its_owner_can_read_it(folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_it_is_never_written_over_another(folder: Path) -> None:
    with pytest.raises(Refused, match="not empty"):
        archive.create(folder)


def test_without_a_manifest_it_is_no_backup(folder: Path) -> None:
    (folder / archive.MANIFEST).unlink()
    with pytest.raises(Corrupt, match=r"no manifest\.json"):
        archive.read(folder)


@pytest.mark.parametrize("content", [b"onetwO", b"one", b""])
def test_a_file_that_changed_is_refused(folder: Path, content: bytes) -> None:
    (folder / "A.s2").write_bytes(content)
    with pytest.raises(Corrupt, match=r"A\.s2 is damaged"):
        archive.check(folder, archive.read(folder))


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "A.s2").unlink()
    with pytest.raises(Corrupt, match=r"A\.s2 is missing"):
        archive.check(folder, archive.read(folder))


@pytest.mark.parametrize(
    ("change", "why"),
    [({"format": 9}, "has format 9"), ({"parts": 1}, "cannot be read"), ({"parts.file": "../x"}, "names a file")],
)
def test_a_manifest_of_another_kind_is_refused(folder: Path, change: dict[str, Any], why: str) -> None:
    path = folder / archive.MANIFEST
    manifest = without_sums(path)
    if "parts.file" in change:
        manifest["parts"][0]["file"] = change["parts.file"]
    else:
        manifest |= change
    path.write_bytes(msgspec.json.encode(manifest))
    with pytest.raises(Corrupt, match=why):
        archive.read(folder)


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"parts": ' * 50_000, b"\xff", b""])
def test_a_manifest_that_is_no_manifest_cannot_be_read(folder: Path, content: bytes) -> None:
    (folder / archive.MANIFEST).write_bytes(content)
    with pytest.raises(Corrupt, match="cannot be read"):
        archive.read(folder)


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A backup of two streams, whose files have pieces of four bytes."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 4)
    return made(tmp_path / "several", {"A": b"aaaabbbbccccdd", "B": b"eeee"})


def made(place: Path, streams: dict[str, bytes]) -> Path:
    archive.create(place)
    parts = []
    for name, data in streams.items():
        with archive.writing(place / f"{name}.s2") as (write, written):
            for at in range(0, len(data), 3):
                write(data[at : at + 3])
        saved = Saved({"name": name}, STATE)
        parts.append(Part(name, f"{name}.s2", written.bytes, written.sha256, saved, written.pieces))
    archive.finish(place, Manifest(
        format=FORMAT, made_at="now", version="1", server="2.15.1", partitions=4, secrets=False,
        requests=Requests(1, 0), parts=parts,
    ))
    return place


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"aaaabbBbccccdd", "from byte 4 to 8 it is not what was written"),
        (b"aaaabbbbccccdD", "from byte 12 to 14 it is not what was written"),
        (b"aaaaccccdd", "from byte 4 4 bytes are missing, 10 bytes instead of 14"),
        (b"ccccdd", "from byte 0 8 bytes are missing"),
        (b"aaaabbbb", "from byte 8 everything is missing, 8 bytes instead of 14"),
        (b"", "from byte 0 everything is missing"),
        (b"aaaabbbbccccddddd", "from byte 12 to 16 it is not what was written, 17 bytes instead of 14"),
        (b"aaaabbbbccccd", "from byte 12 to 13 it is not what was written"),
    ],
)
def test_damage_is_told_by_its_place(several: Path, content: bytes, where: str) -> None:
    (several / "A.s2").write_bytes(content)
    with pytest.raises(Corrupt, match=rf"A\.s2 is damaged: {where}"):
        archive.check(several, archive.read(several))


def test_what_follows_the_end_of_a_file_is_told(several: Path) -> None:
    (several / "B.s2").write_bytes(b"eeeeffff")
    with pytest.raises(Corrupt, match=r"B\.s2 is damaged: from byte 4 there is more than was written"):
        archive.check(several, archive.read(several))


def test_an_archive_of_before_pieces_is_still_checked(several: Path) -> None:
    path = several / archive.MANIFEST
    path.write_bytes(msgspec.json.encode(without_sums(path)))
    archive.check(several, archive.read(several))
    (several / "A.s2").write_bytes(b"aaaabbbbccccdD")
    with pytest.raises(Corrupt, match=r"A\.s2 is damaged: its bytes are not those"):
        archive.check(several, archive.read(several))


@pytest.mark.parametrize("key", ["made_at", "partitions", "requests", "parts", "unknown"])
def test_a_manifest_that_was_changed_is_refused(several: Path, key: str) -> None:
    path = several / archive.MANIFEST
    manifest = msgspec.json.decode(path.read_bytes())
    manifest[key] = {"made_at": "then", "partitions": 8, "requests": {"epoch": 1, "handled": 7},
                     "parts": manifest["parts"][:1], "unknown": 1}[key]
    path.write_bytes(msgspec.json.encode(manifest))
    with pytest.raises(Corrupt, match=r"manifest\.json is damaged"):
        archive.read(several)


def test_any_byte_of_a_manifest_that_turns_is_noticed(several: Path) -> None:
    path = several / archive.MANIFEST
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(Corrupt):
            archive.check(several, archive.read(several))


def test_the_manifest_of_another_backup_is_refused(several: Path, tmp_path: Path) -> None:
    other = made(tmp_path / "other", {"A": b"xxxx", "B": b"yyyy"})
    (several / archive.MANIFEST).write_bytes((other / archive.MANIFEST).read_bytes())
    with pytest.raises(Corrupt, match=r"is the manifest of another backup: no file here is as it says"):
        archive.check(several, archive.read(several))


def test_a_manifest_that_leaves_a_file_out_is_refused(several: Path, tmp_path: Path) -> None:
    other = made(tmp_path / "other", {"A": b"aaaabbbbccccdd"})
    (several / archive.MANIFEST).write_bytes((other / archive.MANIFEST).read_bytes())
    with pytest.raises(Corrupt, match=r"does not name B\.s2"):
        archive.check(several, archive.read(several))


def test_a_file_under_the_name_of_another_stream_is_refused(several: Path) -> None:
    path = several / archive.MANIFEST
    manifest = without_sums(path)
    manifest["parts"][0]["stream"] = "C"
    path.write_bytes(msgspec.json.encode(manifest))
    with pytest.raises(Corrupt, match="says of C what the broker said of A"):
        archive.read(several)


def test_a_manifest_over_the_limit_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MANIFEST_BYTES", 10)
    with pytest.raises(Corrupt, match="over 10 bytes"):
        archive.read(folder)


def test_the_log_is_saved_before_what_it_names_and_schedules_before_the_log() -> None:
    order = backup.streams(topology.wanted(), secrets=False)
    place = {name: order.index(name) for name in order}
    last_event = place["NOETL_EVENTS_3"]
    assert place["KV_noetl_schedules"] < place["NOETL_EVENTS_0"]
    assert last_event < min(place["NOETL_RESULTS"], place["NOETL_REQUESTS"], place["KV_noetl_playbooks"])
    derived = {"NOETL_COMMANDS", *(f"KV_noetl_{bucket}" for bucket in ("cursors", "workers", "ctx", "loops"))}
    assert not {*derived, "KV_noetl_keychain"} & place.keys()
    assert set(backup.streams(topology.wanted(), secrets=True)) - set(order) == {"KV_noetl_keychain"}


@pytest.mark.parametrize(
    ("message", "is_derived"),
    [
        (Message("noetl.requests.execute", b'{"path": "a"}', 7), True),
        (Message("noetl.requests.rerun", b'{"execution_id": "a"}', 7), True),
        (Message("noetl.requests.execute", b'{"path": "a"}', 7, {"Nats-Msg-Id": "k"}), False),
        (Message("noetl.requests.execute", b'{"path": "a"}', 7, {"Noetl-Request-Id": "k"}), False),
        (Message("noetl.requests.execute", b'{"path": "a", "execution_id": "e"}', 7), False),
        (Message("noetl.requests.signal", b"{}", 7), False),
        (Message("noetl.requests.execute", b"nonsense", 7), False),
    ],
)
def test_a_request_without_an_id_is_known_by_its_place(message: Message, is_derived: bool) -> None:
    assert derived_id(message, 5) == (derive_id("seq", 5, 7) if is_derived else "")


def state(messages: int, first: int, last: int) -> dict[str, int]:
    return {"messages": messages, "first_seq": first, "last_seq": last}


@pytest.mark.parametrize(
    ("sealed", "came", "is_whole"),
    [
        (True, state(9, 1, 9), True),
        (True, state(12, 1, 12), True),  # written while the backup was made
        (True, state(8, 1, 9), False),
        (True, state(9, 2, 10), False),
        (True, state(8, 1, 8), False),
        (False, state(5, 5, 9), True),  # replaced, or too old by now
        (False, state(8, 1, 8), False),
    ],
)
def test_a_sealed_stream_comes_back_whole_and_no_other_loses_its_end(
    sealed: bool, came: dict[str, int], is_whole: bool
) -> None:
    part = Part("A", "A.s2", 1, "", Saved({"deny_purge": sealed}, state(9, 1, 9)))
    if is_whole:
        check(part, came)
    else:
        with pytest.raises(Corrupt, match="did not come back whole"):
            check(part, came)

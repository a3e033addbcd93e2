"""A keyring in a folder: its file, the part of the server's configuration, and a file for each user.

All but the configuration are their owner's alone: that has no secret in it, and a server is often run by somebody else.
"""

import fcntl
import os
from pathlib import Path

import msgspec

from shared.errors import Refused
from shared.runtime.broker_auth import documents
from shared.runtime.broker_auth.keyring import Keyring
from shared.runtime.service.privacy import write_private

KEYRING = "keyring.json"
KEYS = (".nk", ".creds")  # of users
PUBLIC_MODE = 0o644


def hold(place: Path) -> int:
    """Waits until nobody else changes the keyring: two would each write over what the other has made. Until `os.close`
    of what it returns, or the end of the process."""
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def read(path: Path) -> Keyring | None:
    """The keyring of a file; None where there is none. What is in a broken one is not shown."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Keyring)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from None
    except msgspec.MsgspecError:
        raise Refused(f"{path} is not a keyring") from None


def write(folder: Path, keyring: Keyring) -> bool:
    """Whether anything is other than it was."""
    files = documents.user_files(keyring)
    gone = [file for file in folder.iterdir() if file.suffix in KEYS and file.name not in files]
    changed = [_put(folder / KEYRING, text_of(keyring))]  # first: all else follows from it
    changed += [_put(folder / name, text) for name, text in files.items()]
    changed.append(_put(folder / documents.SERVER_FILE, documents.server_part(keyring), PUBLIC_MODE))
    for file in gone:
        file.unlink()
    return any(changed) or bool(gone)


def text_of(keyring: Keyring) -> str:
    return msgspec.json.format(msgspec.json.encode(keyring), indent=2).decode() + "\n"


def _put(path: Path, text: str, mode: int = 0o600) -> bool:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    write_private(path, text.encode())
    path.chmod(mode)
    return True

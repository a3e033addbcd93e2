"""How much an embedded broker may keep in files: what it has and what is free there, less a reserve for everything else
that writes to that disk. Without a limit the server takes three quarters of what is free when it starts, whatever it
has already; at a limit it refuses cleanly, and on a full disk it only falls silent."""

import os
from pathlib import Path

from msgspec import Struct

MIB = 1024 * 1024
RESERVE_SHARE = 0.05  # of the disk
LEAST_RESERVE, MOST_RESERVE = 64 * MIB, 1024 * MIB
SMALL_DISK_SHARE = 0.25  # of what there is for the broker: the reserve is never more
LEAST_LIMIT = MIB


class Room(Struct, frozen=True):
    """Bytes of the disk, and of the broker's files on it."""

    total: int
    free: int
    used: int

    @property
    def reserve(self) -> int:
        wanted = min(max(int(self.total * RESERVE_SHARE), LEAST_RESERVE), MOST_RESERVE)
        return min(wanted, int((self.free + self.used) * SMALL_DISK_SHARE))

    @property
    def limit(self) -> int:
        """For `max_file_store`."""
        return max(self.free + self.used - self.reserve, LEAST_LIMIT)


def look(store: Path) -> Room:
    """The folder need not be there yet."""
    place = next(path for path in (store, *store.parents) if path.exists())
    disk = os.statvfs(place)
    return Room(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize, _size(store))


def _size(folder: Path) -> int:
    """A file may go away while we look."""
    found = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                found += os.stat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return found

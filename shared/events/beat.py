"""What a worker says of itself in the `noetl_workers` bucket."""

from msgspec import Struct

Key = tuple[str, str, int]  # execution, run, iteration (-1: none)


class Beat(Struct, frozen=True, omit_defaults=True):
    """`room`: how many commands it wants to have, beyond the first of each execution."""

    worker: str
    pool: str
    slots: int = 0
    held: list[Key] = []
    room: int = 0
    host: str = ""
    pid: int = 0
    started: float = 0.0
    version: str = ""
    provides: tuple[str, ...] = ()
    draining: bool = False

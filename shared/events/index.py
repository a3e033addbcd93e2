"""What the index of a lease or a command stands for: -1 the run itself, from 0 on an iteration of it, and below -1 the
claim of a frame of rows, for a loop with a cursor."""

RUN = -1
FIRST_FRAME = -2


def of_frame(frame: int) -> int:
    return FIRST_FRAME - frame


def frame_of(index: int) -> int:
    """-1 for a run or an iteration."""
    return FIRST_FRAME - index if index <= FIRST_FRAME else -1


def index_of(part: str) -> int:
    """Of what is written behind the run's id and the dot."""
    if part.startswith("f"):
        return of_frame(int(part[1:]))
    return int(part) if part else RUN


def part_of(index: int) -> str:
    """How it is written behind the run's id."""
    if index <= FIRST_FRAME:
        return f".f{frame_of(index)}"
    return f".{index}" if index >= 0 else ""

"""What the index of a lease or a command stands for: -1 the run itself, from 0 on an iteration of it, and below -1 the
claim of a frame of rows, for a loop with a cursor. One number, so that a key is a run's id and an index; nobody else
compares it with anything."""

RUN = -1
FIRST_FRAME = -2


def is_run(index: int) -> bool:
    """The run as a whole: of a loop, all of it, as the holder of a local loop has it."""
    return index == RUN


def is_iteration(index: int) -> bool:
    return index > RUN


def is_frame(index: int) -> bool:
    return index < RUN


def of_frame(frame: int) -> int:
    return FIRST_FRAME - frame


def frame_of(index: int) -> int:
    """-1 for a run or an iteration."""
    return FIRST_FRAME - index if is_frame(index) else -1


def index_of(part: str) -> int:
    """Of what is written behind the run's id and the dot."""
    if part.startswith("f"):
        return of_frame(int(part[1:]))
    return int(part) if part else RUN


def part_of(index: int) -> str:
    """How it is written behind the run's id."""
    return f".f{frame_of(index)}" if is_frame(index) else iteration_part(index)


def iteration_part(index: int) -> str:
    """The same where claims of rows are no runs of their own: nothing for them."""
    return f".{index}" if is_iteration(index) else ""


def in_brackets(index: int) -> str:
    """How people see an iteration, behind its run's id."""
    return f"[{index}]" if is_iteration(index) else ""

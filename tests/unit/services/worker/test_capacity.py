"""How many commands a worker wants under way."""

from services.worker.capacity import POLITE, SEEN_LOOKS, Room


def looked(room: Room, calls: int, *executions: str, times: int = 1) -> int:
    for _ in range(times):
        for execution in executions:
            room.took(execution)
        room.look(calls)
    return room.size


def test_an_execution_alone_has_all_there_is() -> None:
    assert looked(Room(64), 0, "a", times=20) == 128


def test_short_tasks_leave_little_before_others() -> None:
    assert looked(Room(64), 0, "a", "b") == POLITE


def test_long_calls_fill_the_slots_in_company_too() -> None:
    room, calls = Room(64), 0
    for _ in range(10):
        calls = min(64, looked(room, calls, "a", "b"))
    assert room.size >= 64


def test_when_the_others_are_gone_all_is_free_again() -> None:
    room = Room(64)
    looked(room, 0, "a", "b")
    assert looked(room, 0, "a", times=2 * SEEN_LOOKS) == 128


def test_a_worker_without_work_is_quiet() -> None:
    room = Room(64)
    looked(room, 0, "a")
    assert not room.is_quiet
    looked(room, 0, times=2 * SEEN_LOOKS)
    assert room.is_quiet


def test_a_small_change_is_not_told() -> None:
    room = Room(64)
    looked(room, 20, "a", "b")
    size = room.size
    assert not room.look(21)
    assert room.size == size

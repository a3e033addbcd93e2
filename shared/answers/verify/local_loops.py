"""A local loop by what its worker wrote: never more iterations at a time than it may have."""

from collections.abc import Iterator

from shared.answers.history.history import History, Key, Violation
from shared.events.run_index import is_run


def check_local(history: History, run_id: str, most: int) -> Iterator[Violation]:
    """An iteration is in flight from its first record under a hold of the loop to its last. With a new hold, the
    iterations of the one before are nobody's until they are begun again."""
    kept = {id(record) for key, held in history.held.items() if key.run_id == run_id for _, record in held.kept}
    held = (0, 0)
    live: set[int] = set()
    for seq, record in history.by("iteration"):
        lease = record.lease
        if lease is None or lease.run_id != run_id or id(record) not in kept:
            continue
        if is_run(lease.index):
            held, live = lease.epoch, live if lease.epoch == held else set()
            continue
        if lease.epoch != held:
            yield Violation("loop", f"iteration {Key(run_id, lease.index)} runs under no hold of its loop", seq)
        live.add(lease.index)
        if len(live) > most:
            yield Violation("loop", f"loop {run_id} has {len(live)} iterations in flight, over {most}", seq)
        ended = history.held[Key(run_id, lease.index)].end
        if 0 < ended <= seq:
            live.discard(lease.index)

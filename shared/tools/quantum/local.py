"""The provider `local`: a simulator on the worker. A job's id holds the whole job, so that any worker can answer for it
and nothing has to be kept. Its seed comes from the key of the call that submitted it, so that a job that is submitted
or read again has the same counts."""

import asyncio
import base64
import binascii
import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from shared.tools.base.guard import BadCall
from shared.tools.quantum.circuit import Circuit, checked, shots_of
from shared.tools.quantum.provider import Counts, Job, State
from shared.tools.quantum.state_vector import advance, sample

MAX_ID = 32_768      # characters
MAX_JOB = 262_144    # bytes of a job, unpacked


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    circuit: Circuit
    shots: int
    seed: int


class LocalProvider:
    async def submit(self, job: Job) -> str:
        seed = int.from_bytes(hashlib.sha256(job.key.encode()).digest()[:6], "big")
        packed = zlib.compress(msgspec.json.encode(_Kept(job.circuit, job.shots, seed)), 9)
        job_id = base64.urlsafe_b64encode(packed).decode()
        if len(job_id) > MAX_ID:
            raise BadCall(f"a job of {len(job_id)} characters, over the limit of {MAX_ID}: use fewer gates")
        return job_id

    async def status(self, job_id: str, auth: Mapping[str, Any] | None) -> State:
        _kept(job_id)
        return "DONE"  # it is computed by whoever reads it

    async def results(self, job_id: str, auth: Mapping[str, Any] | None) -> Counts:
        kept = _kept(job_id)
        steps = advance(kept.circuit)
        state = next(steps)
        for _ in steps:
            await asyncio.sleep(0)  # others go on between two gates, and a call that is cancelled ends here
        return Counts(kept.shots, sample(state, kept.circuit, kept.shots, kept.seed))


def _kept(job_id: str) -> _Kept:
    """The job that an id stands for; it may come from anyone, so every limit is held again."""
    try:
        if len(job_id) > MAX_ID:
            raise ValueError("too long")
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.urlsafe_b64decode(job_id.encode()), MAX_JOB)
        if unpacking.unconsumed_tail:
            raise ValueError("too long")
        kept = msgspec.json.decode(data, type=_Kept)
    except (ValueError, binascii.Error, zlib.error, msgspec.MsgspecError):
        raise BadCall("there is no such job: job_id is what submitting one gave") from None
    checked(kept.circuit)
    shots_of(kept.shots)
    return kept

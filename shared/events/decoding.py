"""From bytes that anyone may have written to a value of ours: raises Corrupt if they are none, and nothing else."""

from typing import TypeVar

import msgspec

from shared.errors import Corrupt

T = TypeVar("T")


def read(decoder: "msgspec.json.Decoder[T]", data: bytes, what: str, most: int) -> T:
    """`what` it should be, and how many bytes it may have. The reason does not repeat what is in them."""
    if len(data) > most:
        raise Corrupt(f"{what} of {len(data)} bytes; the limit is {most}")
    try:
        return decoder.decode(data)
    except RecursionError:
        raise Corrupt(f"{what} nested too deeply to be read") from None
    except UnicodeDecodeError as error:
        raise Corrupt(f"{what} that is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{what} that cannot be read: {error}") from None

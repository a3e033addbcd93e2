"""Secrets taken out of what is recorded: by their values, in every spelling of `secret_forms`, wherever they stand in a
result, an error, what a program printed, or a header. Never by the name of a key.

What has no secret in it costs one search for a few short texts, however many values it has. Only what may have one is
walked through, and of a long text only what is around such a place is matched. Messages are cut by whoever makes them,
and a program that is ended may have printed half of a line: so the beginning of a secret at the end of such a text, or
its end at the beginning, goes too.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from shared.engine.values.secret_forms import pattern, probes, reach
from shared.engine.values.secret_values import LEAST, secret_values
from shared.events.fields import Stream
from shared.events.outcome import Outcome
from shared.left_out import SAID

HIDDEN = "***"
LONG = 4096  # characters of a text that is matched in parts
_FRAMED = ("http", "sql")  # shapes of a result whose own keys are ours
_STREAMS = frozenset(get_args(Stream))
_CUT = "… \r\n"  # what stands where a text was cut
_encode = msgspec.json.encode


class Secrets:
    """Those that the calls of a run have been given so far. Falsy while there is none."""

    def __init__(self, *credentials: Any) -> None:
        self._values: frozenset[str] = frozenset()
        self._names: frozenset[str] = frozenset()
        self._probes: list[tuple[bytes, str]] = []
        self.learn(*credentials)

    def learn(self, *credentials: Any) -> None:
        values, names = secret_values(*credentials)
        self._names |= names
        known, self._values = self._values, (self._values | values) - self._names
        if known != self._values:
            self._probes = [(probe.encode(), secret) for secret in self._values for probe in probes(secret)]

    def __bool__(self) -> bool:
        return bool(self._values)

    def outcome(self, outcome: Outcome) -> Outcome:
        """The outcome as it may be recorded."""
        return self.cleaned(outcome, self.encoded(outcome))

    def encoded(self, outcome: Outcome) -> bytes:
        return _encode((outcome.result, outcome.error, outcome.meta, outcome.http, outcome.pg, outcome.py,
                        outcome.fields))

    def cleaned(self, outcome: Outcome, data: bytes) -> Outcome:
        """With what `encoded` makes of it. The word for the kind of an error is ours: rules read it."""
        kind = (outcome.error or {}).get("kind")
        if found := self._found(data):
            clean = _Cleaner(found, self._names)
            result = clean.framed(outcome.result) if outcome.shape in _FRAMED else clean.value(outcome.result)
            outcome = replace(
                outcome, result=result, error=clean.framed(outcome.error), meta=clean.framed(outcome.meta),
                http=clean.framed(outcome.http), pg=clean.framed(outcome.pg), py=clean.framed(outcome.py),
                fields=clean.framed(outcome.fields))
        if outcome.error is not None:
            error, py = self._uncut(outcome.error), self._uncut(outcome.py)
            outcome = replace(outcome, error={**error, "kind": kind}, py=py)
        meta, result = self._printed(outcome.meta), self._printed(outcome.result)
        if meta is outcome.meta and result is outcome.result:
            return outcome
        return replace(outcome, meta=meta, result=result)

    def _printed(self, value: Any) -> Any:
        """What a program printed may end within a secret, where it was ended or where something was left out."""
        if not isinstance(value, dict) or not value.keys() & _STREAMS:
            return value
        return {key: self._parted(item) if key in _STREAMS else item for key, item in value.items()}

    def _parted(self, text: Any) -> Any:
        if not isinstance(text, str):
            return text
        return "".join(part if SAID.fullmatch(part) else self._uncut(part) for part in SAID.split(text))

    def value(self, value: Any) -> Any:
        found = self._found(_encode(value))
        return _Cleaner(found, self._names).value(value) if found else value

    def part(self, text: str) -> str:
        """A text that may begin or end within a secret."""
        return str(self._uncut(self.value(text)))

    def _found(self, data: bytes) -> list[str]:
        """The secrets that may be in it."""
        return list(dict.fromkeys(secret for probe, secret in self._probes if probe in data))

    def _uncut(self, value: Any) -> Any:
        match value:
            case str():
                for secret in self._values:
                    value = _without_end(_without_beginning(value, secret), secret)
                return value
            case dict():
                return {key: self._uncut(item) for key, item in value.items()}
            case list():
                return [self._uncut(item) for item in value]
        return value


class _Cleaner:
    def __init__(self, secrets: Iterable[str], names: Iterable[str]) -> None:
        longest = sorted(secrets, key=len, reverse=True)  # one which holds another goes as a whole
        self._probes = tuple({probe for secret in longest for probe in probes(secret)})
        self._reach = reach(longest[0])
        self._numbers = frozenset(secret for secret in longest if secret.isdecimal())
        self._kept = frozenset(name for name in names if any(secret in name for secret in longest))
        whole = [*map(re.escape, sorted(self._kept, key=len, reverse=True)), *map(pattern, longest)]
        self._pattern = re.compile("|".join(whole))

    def value(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is dict:
            return {self._text(key) if type(key) is str else key: self.value(item) for key, item in value.items()}
        if kind is list or kind is tuple:
            return [self.value(item) for item in value]
        if kind is int:
            return HIDDEN if self._numbers and str(value) in self._numbers else value
        if value is None or kind is bool or kind is float:
            return value
        return self.value(msgspec.to_builtins(value))  # as it would be recorded: a time, bytes

    def framed(self, value: Any) -> Any:
        """A mapping whose keys are ours."""
        if not isinstance(value, dict):
            return self.value(value)
        return {key: self.value(item) for key, item in value.items()}

    def _text(self, text: str) -> str:
        if len(text) > LONG:
            return "".join(self._parts(text))
        if not any(probe in text for probe in self._probes):
            return text
        return self._pattern.sub(self._shown, text)

    def _parts(self, text: str) -> Iterator[str]:
        """What is within reach of a probe is matched. Whatever matches holds one, so nothing is missed."""
        done = 0
        for begin, end in self._around(text):
            yield text[done:begin]
            yield self._pattern.sub(self._shown, text[begin:end])
            done = end
        yield text[done:]

    def _around(self, text: str) -> Iterator[tuple[int, int]]:
        """In order, and apart from each other."""
        at = [text.find(probe) for probe in self._probes]
        begin = end = 0
        while (nearest := min((place for place in at if place >= 0), default=-1)) >= 0:
            if nearest - self._reach > end:
                yield begin, end
                begin = nearest - self._reach
            skip = nearest + self._reach  # whatever comes before is within reach of the end
            end = min(skip + self._reach, len(text))
            at = [text.find(probe, skip) if 0 <= place < skip else place
                  for probe, place in zip(self._probes, at, strict=True)]
        yield begin, end

    def _shown(self, found: "re.Match[str]") -> str:
        return found[0] if found[0] in self._kept else HIDDEN


def _without_end(text: str, secret: str) -> str:
    kept = text.rstrip(_CUT)
    for size in range(min(len(secret) - 1, len(kept)), LEAST - 1, -1):
        if kept.endswith(secret[:size]):
            return kept[:-size] + HIDDEN + text[len(kept):]
    return text


def _without_beginning(text: str, secret: str) -> str:
    kept = text.lstrip(_CUT)
    for size in range(min(len(secret) - 1, len(kept)), LEAST - 1, -1):
        if kept.startswith(secret[-size:]):
            return text[: len(text) - len(kept)] + HIDDEN + kept[size:]
    return text

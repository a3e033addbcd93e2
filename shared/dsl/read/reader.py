"""Reads parts of a document and records what is wrong with them. Every method returns something
usable, so that reading continues and all mistakes are reported at once."""

import difflib
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.model.plan import Origin
from shared.dsl.source.nodes import Document, Path, Position

MAX_ERRORS = 500
MAX_WARNINGS = 100
MAX_SUGGESTIONS = 50    # comparing names is the costly part of a mistake
MAX_COMPARED = 500      # names a mistyped one is compared with
MAX_COMPARISONS = 2000  # of names, in one playbook
MAX_NAME = 128
NEAR = 3                # of those it looks like are looked at closely
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
NAME_FIX = f"letters, digits, _ and -, not beginning with a digit or -, at most {MAX_NAME} characters"


class Told(NamedTuple):
    """A key that we recognise but reject here: why, and what to write instead."""

    code: str
    message: str
    fix: str


class Reader:
    def __init__(self, document: Document, file: str, diagnostics: list[Diagnostic],
                 generated: Mapping[str, Origin] = MappingProxyType({})) -> None:
        """`generated` are names that lowering made up, which no author knows."""
        self.generated = generated
        self.document = document
        self.file = file
        self.diagnostics = diagnostics
        self.errors = sum(each.severity == "error" for each in diagnostics)
        self.warnings = len(diagnostics) - self.errors
        self.suggestions = 0
        self.compared = 0

    # -- recording

    @property
    def full(self) -> bool:
        """Enough is wrong: no more errors are looked for."""
        return self.errors >= MAX_ERRORS

    def at(self, position: Position, code: str, message: str, fix: str, *, warning: bool = False) -> None:
        self.errors += not warning
        self.warnings += warning
        if self.warnings <= MAX_WARNINGS if warning else self.errors <= MAX_ERRORS:
            self.diagnostics.append(Diagnostic(position.line, position.column, code, message, fix, self.file,
                                               "warning" if warning else "error"))

    def value(
        self, path: Path, code: str, message: str, fix: str, *, warning: bool = False, once: bool = False
    ) -> None:
        """At a value; an absent one (`key:` and nothing) has no place but its key's. `once`: no code twice there."""
        node = self.document.node(path)
        position = self.document.key(path) if node.value is None else node.position
        here = (position.line, position.column, code)
        if not once or all((each.line, each.column, each.code) != here for each in self.diagnostics):
            self.at(position, code, message, fix, warning=warning)

    def key(self, path: Path, code: str, message: str, fix: str, *, warning: bool = False) -> None:
        self.at(self.document.key(path), code, message, fix, warning=warning)

    def nearest(self, name: Any, known: Iterable[str]) -> str:
        """The known name a mistyped one most likely meant, or nothing."""
        self.suggestions += 1
        if not isinstance(name, str) or self.suggestions > MAX_SUGGESTIONS or self.compared >= MAX_COMPARISONS:
            return ""
        listed = list(islice(known, MAX_COMPARED))
        self.compared += len(listed)
        return nearest(name, listed)

    # -- shapes

    def mapping(self, value: Any, path: Path, fix: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self.value(path, "DSL203", f"{named(path)} must be a mapping, not {kind_of(value)}", fix)
        return {}

    def listing(self, value: Any, path: Path, fix: str) -> list[Any]:
        if isinstance(value, list):
            return value
        self.value(path, "DSL203", f"{named(path)} must be a list, not {kind_of(value)}", fix)
        return []

    def keys(self, found: Mapping[str, Any], path: Path, known: Iterable[str], told: Mapping[str, Told],
             what: str, meant: Iterable[str] = ()) -> None:
        """Every key must be known; one in `told` gets its own message. `meant` are others that authors write."""
        known = tuple(known)
        for key in found:
            if key in known or self.full:
                continue
            if key in told:
                self.key((*path, key), *told[key])
            else:
                self.key((*path, key), "DSL201", f"unknown key {short(key)} in {what}",
                         self._instead(key, (*known, *meant)))

    def _instead(self, key: str, known: tuple[str, ...]) -> str:
        if key.startswith("-"):
            return f"an item of a list has a blank behind its dash: - {key[1:41].strip()}: …"
        near = self.nearest(key, known)
        return f"did you mean {near}?" if near else f"known here: {', '.join(known) or 'none'}"

    def section(self, owner: Mapping[str, Any], key: str, path: Path, known: Iterable[str],
                told: Mapping[str, Told] | None = None) -> dict[str, Any]:
        """The mapping under a key, its keys checked; empty when absent."""
        if key not in owner:
            return {}
        known = tuple(known)
        below = (*path, key)
        found = self.mapping(owner[key], below, f"write {key}: {{{', '.join(known)}}}")
        self.keys(found, below, known, told or {}, named(below))
        return found

    def required(self, owner: Mapping[str, Any], key: str, path: Path, what: str, fix: str) -> bool:
        if key in owner:
            return True
        self.key(path, "DSL202", f"{what} has no {key}", fix)
        return False

    def task(self, name: str) -> str:
        """A task as its author knows it."""
        origin = self.generated.get(name)
        return f"task {short(name)}" if origin is None else origin.what

    # -- scalars

    def text(self, value: Any, path: Path, fix: str, *, most: int = 4096) -> str:
        if not isinstance(value, str):
            self.value(path, "DSL203", f"{named(path)} must be text, not {kind_of(value)}", fix)
            return ""
        if not value.strip() or len(value) > most:
            self.value(path, "DSL204", f"{named(path)} must have 1 to {most} characters", fix)
        return value

    def choice(self, value: Any, path: Path, choices: tuple[str, ...]) -> str:
        if isinstance(value, str) and value in choices:
            return value
        near = self.nearest(value, choices)
        fix = f"did you mean {near}?" if near else f"one of: {', '.join(choices)}"
        self.value(path, "DSL204", f"{named(path)} cannot be {short(value)}", fix)
        return choices[0]

    def boolean(self, value: Any, path: Path) -> bool:
        if not isinstance(value, bool):
            self.value(path, "DSL203", f"{named(path)} must be true or false, not {kind_of(value)}",
                       f"write {path[-1]}: true or {path[-1]}: false")
        return bool(value)

    def whole(self, value: Any, path: Path, least: int, most: int) -> int:
        fix = f"a whole number from {least} to {most}"
        if type(value) is not int:
            self.value(path, "DSL203", f"{named(path)} must be a whole number, not {kind_of(value)}", fix)
            return least
        if not least <= value <= most:
            self.value(path, "DSL204", f"{named(path)} is {value}, outside {least} to {most}", fix)
            return least
        return value

    def seconds(self, value: Any, path: Path) -> float | None:
        fix = "a number of seconds above 0"
        if type(value) not in (int, float):
            self.value(path, "DSL203", f"{named(path)} must be a number, not {kind_of(value)}", fix)
            return None
        if value <= 0:
            self.value(path, "DSL204", f"{named(path)} must be above 0", fix)
            return None
        return float(value)

    def name(self, value: Any, path: Path, what: str) -> str:
        if not isinstance(value, str):
            self.value(path, "DSL203", f"{what} must be text, not {kind_of(value)}", NAME_FIX)
            return ""
        if not is_name(value) and value not in self.generated:  # made of another, which is reported
            self.value(path, "DSL205", f"{what} {short(value)} is not allowed", NAME_FIX)
        return value


def is_name(text: str) -> bool:
    return len(text) <= MAX_NAME and NAME.match(text) is not None


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is a slip of the fingers away. Anything farther is another word, and to name it would send
    its author to the wrong place."""
    lower = {each.lower(): each for each in islice(known, MAX_COMPARED)}
    given = name[:MAX_NAME].lower()
    found = difflib.get_close_matches(given, lower, n=NEAR, cutoff=0.6)
    return next((lower[each] for each in found if is_slip(given, each)), "")


def is_slip(one: str, other: str) -> bool:
    """Whether so few letters are wrong, missing, added or swapped that one was meant: one of up to five, two of more.
    Case, _ and - do not count, nor does a plural."""
    a, b = (re.sub(r"[_-]", "", text).lower() for text in (one, other))
    if a == b or {a, b} in ({a, a + "s"}, {b, b + "s"}):
        return True
    shortest = min(len(a), len(b))
    return _distance(a, b) <= (0 if shortest < 2 else 1 if shortest <= 5 else 2)


def _distance(a: str, b: str) -> int:
    """Edits from one text to the other, with two neighbours swapped as one (the optimal string alignment distance)."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, last, row = row, before, [i]
        for j, y in enumerate(b, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if last and j > 1 and x == b[j - 2] and a[i - 2] == y:
                best = min(best, last[j - 2] + 1)
            row.append(best)
    return row[-1]


def short(value: Any) -> str:
    """A value as a message can carry it."""
    text = repr(value) if not isinstance(value, dict | list) else kind_of(value)
    return text if len(text) <= 60 else text[:57] + "…'"


def kind_of(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean", type(None): "nothing"}
    return names.get(str if isinstance(value, str) else type(value), "a number")  # a Text is text


def named(path: Path) -> str:
    """A path as an author would say it: its last three keys."""
    keys = [part[:40] for part in path if isinstance(part, str) and part != "workflow"]
    return ".".join(keys[-3:]) or "the playbook"

"""Coverage of playbooks by their tests, as values and as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
from msgspec import Struct

from services.cli.console.render import table
from services.cli.testing.suites import Book
from shared.answers.playtests.coverage import KINDS, Coverage, Reached
from shared.dsl.authoring.source_lines import Lines
from shared.dsl.model.plan import Plan
from shared.tools import registry

TITLES = {"step": "steps", "arc": "arcs", "admission": "admission rules", "rule": "task rules",
          "compensation": "compensations"}


class Covered(Struct, frozen=True):
    """What the tests reached of one playbook; `kinds` are reached and there of each kind of part."""

    playbook: str
    file: str
    percent: float
    kinds: dict[str, tuple[int, int]]
    parts: list[Reached]

    @property
    def never(self) -> list[Reached]:
        return [part for part in self.parts if part.times == 0]

    def as_dict(self) -> dict[str, Any]:
        kinds = {TITLES[kind].replace(" ", "_"): {"reached": reached, "total": total}
                 for kind, (reached, total) in self.kinds.items()}
        parts = [{"kind": each.part.kind, "step": each.part.step, "line": each.line, "what": each.what,
                  "times": each.times} for each in self.parts]
        return {"playbook": self.playbook, "file": self.file, "percent": self.percent, **kinds, "parts": parts}


def covered(coverage: Mapping[str, Coverage], books: Sequence[Book]) -> list[Covered]:
    """Of each playbook that a case ran; a file that two tests name is one."""
    found: dict[str, Covered] = {}
    for book in books:
        if isinstance(book.plan, Plan) and book.plan.digest in coverage and book.plan.digest not in found:
            found[book.plan.digest] = _covered(book, book.plan, coverage[book.plan.digest])
    return list(found.values())


def _covered(book: Book, plan: Plan, coverage: Coverage) -> Covered:
    parts = coverage.parts(Lines(book.source, registry.specs()))
    kinds: dict[str, tuple[int, int]] = {}
    for kind in KINDS:
        those = [each for each in parts if each.part.kind == kind]
        kinds[kind] = sum(each.times > 0 for each in those), len(those)
    reached = sum(each.times > 0 for each in parts)
    percent = round(100 * reached / len(parts), 1) if parts else 100.0
    return Covered(plan.path, book.file, percent, kinds, parts)


def show(found: Sequence[Covered]) -> None:
    """A row for each playbook, then what was never reached, by line."""
    click.echo()
    rows = [[each.file, *(_share(each.kinds[kind]) for kind in KINDS), f"{each.percent:g} %"] for each in found]
    table(["PLAYBOOK", *(TITLES[kind].upper() for kind in KINDS), "COVERED"], rows)
    for each in found:
        for part in each.never:
            click.echo(f"{each.file}:{part.line}: never reached: {part.what}")


def _share(pair: tuple[int, int]) -> str:
    return f"{pair[0]}/{pair[1]}" if pair[1] else "-"

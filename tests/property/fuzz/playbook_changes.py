"""Playbooks that are almost right: those of the examples and the tests with bytes, values, keys, steps or templates
changed by chance."""

import random
from copy import deepcopy
from functools import cache
from typing import Any

import yaml

from shared.dsl.authoring.language import SHAPES
from shared.dsl.compile import compile_playbook
from shared.tools import registry
from tests.conformance.stand.formal_books import BOOKS as FORMAL_BOOKS
from tests.conformance.stand.fragments import CANONICAL
from tests.conformance.stand.fragments import FORMAL as FRAGMENTS
from tests.property.fuzz import byte_changes, tree_changes
from tests.property.fuzz.template_making import nested_blocks, random_expression
from tests.property.fuzz.templates import PIECES
from tests.property.test_lowering import FORMAL, TODAY
from tests.sim.books.playbooks import BOOKS
from tests.support.examples import PLAYBOOKS
from tests.support.inputs.bounds import DENSE_BYTES
from tests.support.paths import ROOT

FOLDERS = (
    "chaos/playbooks", "chaos/storm/books", "conformance/canonical", "unit/dsl/check/codes", "unit/dsl/check/faulty",
)
KEYS = {key for shape in SHAPES.values() for key in shape}
WORDS = tuple(sorted({*KEYS, *registry.specs(), "start", "end", "<<", ""}))
NAMES = ("workload.items", "ctx.x", "args.n", "iter.item", "result", "outcome.status", "event.name", "start")
TEMPLATES = (
    "{{ workload }}", "{{ ctx.x }}", "{{ a", "{% if x %}", "{{ keychain.x.y }}", "{{ event.name == 'step.failed' }}",
    "{{ outcome.status == 'error' }}", "{{ iter.item }}", "{{ range(90000) | list }}", "{{ 'a' * 900000 }}",
    "{% for i in range(90000) %}{% set x = workload | tojson %}{% endfor %}", "{{ 1 / 0 }}", "{{ gone.x }}",
    "{{ [[[[1]]]] * 1000 }}", "{{ 'a/' * 3000 }}",
)
VALUES: tuple[Any, ...] = (
    *WORDS, *TEMPLATES, *TEMPLATES, *byte_changes.VALUES, True, False, 3, 0.001, 1e9, "1h", "0s", "400d", "1/s",
    "all", "any", "each", "start", "end", "parallel", "sequential", "exclusive", "inclusive", "retry", "jump", "break",
    "fail", "continue", "2026-01-01", "0x10", "1e999", "~", "\u2028", ["start"], [{"step": "start"}],
    {"do": "retry", "attempts": 99}, {"do": "jump", "to": "start"},
    {"kind": "noop"}, {"kind": "python", "code": "result = 1"},
    {"in": [1, 2], "iterator": "n"},
)  # fmt: skip
BYTES = (
    b"&a ", b"*a", b"<<: ", b"!!python/object ", b"!!binary ", b"- ", b": ", b"? ", b"|\n", b">-\n", b"\t", b"\n---\n",
    b"%", b"#", b"{{", b"}}", b"{%", b"'", b'"', b"\n  ", b"\xef\xbb\xbf", b"\xfe\xff", b"\xc2\x85", b"{" * 90,
    b"[" * 90,
)

SCALARS = (
    b"1e999", b"-.inf", b".nan", b"9" * 30, b"9" * 400, b"0x" + b"f" * 400, b"0b1", b"0o9", b"1_000", b"12:30:45",
    b"2026-13-45",
    b"2026-01-01T00:00:00Z", b"yes", b"~", b"1.5", b"!!int x", b"!!float 1", b"{{ x }}", b"*a", b"&a 1",
    b"|", b"'", b"@",
)


@cache
def books() -> tuple[bytes, ...]:
    """Those that compile."""
    files = [*PLAYBOOKS, *(file for folder in FOLDERS for file in sorted((ROOT / "tests" / folder).glob("*.yaml")))]
    texts = [FORMAL, TODAY, *(book.source for book in FORMAL_BOOKS.values()),
             *(each.source for each in (*CANONICAL.values(), *FRAGMENTS.values()))]
    found = [*(file.read_bytes() for file in files), *(book.source for book in BOOKS), *map(str.encode, texts)]
    return tuple(each for each in found if compile_playbook(each, kinds=registry.specs()).plan is not None)


@cache
def trees() -> tuple[Any, ...]:
    return tuple(yaml.safe_load(each) for each in books())


def mutated(chance: random.Random) -> bytes:
    """Half of them by what they mean, so that some compile; the rest by their bytes."""
    if chance.random() < 0.25:
        source = chance.choice(books())
        drawn = chance.random()
        if drawn < 0.3:
            return _plain(chance, source)
        if drawn < 0.7:
            at = chance.randrange(len(source))
            return source[:at] + chance.choice(BYTES) + source[at + chance.randrange(9) :]
        return byte_changes.mutated(chance, [source])
    tree, other = deepcopy(chance.choice(trees())), chance.choice(trees())
    for _ in range(chance.choice((1, 1, 1, 1, 2, 4))):
        _change(chance, tree, other)
    if chance.random() < 0.02:
        _fill(chance, tree)
    return yaml.safe_dump(tree, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass")


def _fill(chance: random.Random, tree: Any) -> None:
    """As many templates of blocks within blocks as fit into what is compiled within its time."""
    workload = tree.get("workload") if isinstance(tree, dict) else None
    if isinstance(workload, dict):
        text, blocks = "", []
        while len(text) < DENSE_BYTES - 200:
            blocks.append(nested_blocks(chance).replace(" i", f" i{len(blocks)}"))
            text += blocks[-1]
        workload["blocks"] = blocks[: max(1, len(blocks) - 1)]


def _plain(chance: random.Random, source: bytes) -> bytes:
    """The value of a line becomes a plain scalar."""
    lines = source.split(b"\n")
    at = chance.choice([place for place, line in enumerate(lines) if b": " in line])
    lines[at] = lines[at].partition(b": ")[0] + b": " + chance.choice(SCALARS)
    return b"\n".join(lines)


def _change(chance: random.Random, tree: Any, other: Any) -> None:
    match chance.randrange(10):
        case 0 | 1:
            tree_changes.change(chance, tree, VALUES)
        case 2:
            tree_changes.graft(chance, tree, other)
        case 3:
            tree_changes.graft(chance, tree, tree)
        case 4:
            tree_changes.rename(chance, tree, WORDS)
        case 5:
            tree_changes.repeat(chance, tree)
        case 6:
            _step(chance, tree, other)
        case _:
            _template(chance, tree)


def _step(chance: random.Random, tree: Any, other: Any) -> None:
    """A step of the other, or an arc to any step."""
    mine, theirs = (each.get("workflow") if isinstance(each, dict) else None for each in (tree, other))
    if not isinstance(mine, list) or not isinstance(theirs, list) or not mine:
        return
    if chance.random() < 0.3:
        mine.insert(chance.randrange(len(mine) + 1), deepcopy(chance.choice(theirs)))
        return
    names = [step.get("step", "start") for step in mine if isinstance(step, dict)]
    step = chance.choice(mine)
    if isinstance(step, dict) and names:
        when = {"when": chance.choice(TEMPLATES)} if chance.random() < 0.3 else {}
        arcs = [{"step": chance.choice(names), **when} for _ in range(chance.randint(1, 3))]
        step["next"] = {"spec": {"mode": chance.choice(("exclusive", "inclusive"))}, "arcs": arcs}


def _template(chance: random.Random, tree: Any) -> None:
    """A template becomes another, or nearly stays what it is."""
    places = [place for place in (tree_changes.anywhere(chance, tree) for _ in range(12))
              if place is not None and isinstance(place[0][place[1]], str)]
    if not places:
        return
    holder, key = next((place for place in places if "{{" in place[0][place[1]]), places[0])
    text = holder[key]
    match chance.randrange(3):
        case 0:
            at = chance.randrange(len(text) + 1)
            holder[key] = text[:at] + chance.choice(PIECES) + text[at + chance.randrange(3) :]
        case 1:
            holder[key] = chance.choice(TEMPLATES)
        case _:
            inner = random_expression(chance, chance.randint(1, 3)).replace("rows", chance.choice(NAMES))
            holder[key] = "{{ " + inner + " }}"

"""In which order the keys of a workload that hold templates are rendered: one that reads another comes after it. What
a key sees of one that is still to come (its own, or one in a circle with it), `engine/routing/workload.py` says."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.model.plan import EVERYTHING
from shared.dsl.read.template_fields import strings
from shared.dsl.templates.evaluate import is_template
from shared.dsl.templates.needs import names_used


def workload_order(workload: Mapping[str, Any]) -> tuple[str, ...]:
    needs = {key: names_used(value) for key, value in workload.items()
             if any(is_template(text) for text, _ in strings(value, ()))}
    reads = {key: sorted((need.names | need.workload) & needs.keys()) for key, need in needs.items()}
    found: dict[str, None] = {}
    for key in sorted(needs, key=lambda each: EVERYTHING in needs[each].workload):  # who reads all of it comes last
        _put_after_what_it_reads(key, reads, found)
    return tuple(found)


def _put_after_what_it_reads(key: str, reads: Mapping[str, list[str]], found: dict[str, None]) -> None:
    """Depth first, without recursion: a workload has up to 10,000 keys, which may be one chain."""
    open_, stack = {key}, [(key, iter(reads[key]))]
    while stack:
        current, rest = stack[-1]
        below = next((each for each in rest if each not in found and each not in open_), None)
        if below is None:
            found[current] = None
            stack.pop()
        else:
            open_.add(below)
            stack.append((below, iter(reads[below])))

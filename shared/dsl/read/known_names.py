"""Templates that see a few names alone: of a schedule, a trigger, a notification."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.read.reader import Reader, short
from shared.dsl.read.template_fields import check_templates, strings
from shared.dsl.source.nodes import Path
from shared.dsl.templates.analysis import facts
from shared.dsl.templates.evaluate import is_template


def read_templates(reader: Reader, value: Any, path: Path, known: Mapping[str, frozenset[str]]) -> None:
    """Templates must parse, and read nothing but `known`: nothing else is there when they are evaluated. Each name with
    its fields, where those are known."""
    check_templates(reader, value, path, secrets=False)
    check_names(reader, value, path, known)


def check_names(reader: Reader, value: Any, path: Path, known: Mapping[str, frozenset[str]]) -> None:
    for text, at in strings(value, path):
        for read in facts(text).reads if is_template(text) else ():
            fields = known.get(read.space)
            if fields and read.name not in fields:
                reader.at(reader.document.text_line(at, read.line), "DSL911", f"{read.space} has no {short(read.name)}",
                          f"one of: {', '.join(sorted(fields))}", warning=True)
            if not read.space and read.name not in known and read.name != "keychain":
                position = reader.document.text_line(at, read.line)
                reader.at(position, "DSL910", f"the template reads {short(read.name)}, which is not there",
                          f"known here: {', '.join(sorted(known))}")

"""Templates inside a document: their syntax, what must be one expression, and where the keychain may
not be read."""

from collections.abc import Iterator
from typing import Any

from shared.dsl.model.texts import as_written
from shared.dsl.read import template_hints
from shared.dsl.read.reader import Reader, named, short
from shared.dsl.source.nodes import Path
from shared.dsl.templates import evaluate as template
from shared.dsl.templates.analysis import facts
from shared.dsl.templates.needs import names_used

_SECRET_FIX = "use auth: <name>, or read keychain in the task's own keys"


def strings(value: Any, path: Path) -> Iterator[tuple[str, Path]]:
    """Every text of a value, with its path."""
    if isinstance(value, str):
        yield value, path
    elif isinstance(value, dict):
        for key, below in value.items():
            yield from strings(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from strings(below, (*path, index))


def check_templates(reader: Reader, value: Any, path: Path, *, secrets: bool = True) -> None:
    """Each text must parse. `secrets` False: what it yields is recorded, so no keychain (V10 §2.1)."""
    for text, at in strings(value, path):
        if not template.is_template(text) or reader.full:
            continue
        wrong = facts(text).wrong
        if wrong is not None:
            message, offset = wrong
            reader.at(reader.document.text_line(at, offset), "DSL601", f"template: {message}",
                      template_hints.fix(text, message, reader.nearest))
        elif not secrets and "keychain" in text and "keychain" in names_used(text).names:
            # What lowering makes of a condition may stand in several places, none of which its author wrote.
            what = short(as_written(text)) if path[-1] == "when" else named(path)
            reader.value(at, "DSL603", f"{what} may not read the keychain: its value is recorded",
                         _SECRET_FIX, once=True)


def read_condition(reader: Reader, value: Any, path: Path) -> Any:
    """A `when`: a literal boolean, one expression, or a template of `{% if %}` blocks. Text around an
    expression is refused, because text is always true."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and "{%" in value:
        check_templates(reader, value, path, secrets=False)
        return value
    return read_expression(reader, value, path, 'write when: "{{ … }}", or true or false')


def read_expression(reader: Reader, value: Any, path: Path, fix: str) -> Any:
    """Exactly one `{{ expression }}`."""
    is_template = isinstance(value, str) and template.is_template(value)
    if is_template:
        check_templates(reader, value, path, secrets=False)
        if reader.full:
            return value
    if not is_template or not (facts(value).exact or facts(value).wrong):
        reader.value(path, "DSL602", f"{named(path)} is {short(value)}, not an expression", fix)
    return value

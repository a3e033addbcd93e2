"""Templates inside a document: their syntax, what must be one expression, and where the keychain may
not be read."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jinja2 import Environment

from shared.dsl import template
from shared.dsl.names import names_used
from shared.dsl.reader import Reader, named, short
from shared.dsl.source import Path

MAX_TEMPLATES = 10_000
CACHED_CHARS = 1000  # longer texts are checked anew, so that the cache stays small
_LEXER = Environment()  # only for its tokens; nothing is rendered with it
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
        if not template.is_template(text) or reader.full or not _room(reader, at):
            continue
        wrong = _check(text)
        if wrong is not None:
            message, offset = wrong
            reader.at(reader.document.text_line(at, offset), "DSL601", f"template: {message}",
                      "a template is text with {{ expression }} in it")
        elif not secrets and "keychain" in text and "keychain" in names_used(text).names:
            reader.value(at, "DSL603", f"{named(path)} may not read the keychain: its value is recorded",
                         _SECRET_FIX)


def _room(reader: Reader, path: Path) -> bool:
    reader.templates += 1
    if reader.templates == MAX_TEMPLATES + 1:
        reader.value(path, "DSL801", f"more than {MAX_TEMPLATES} templates", "split the playbook")
    return reader.templates <= MAX_TEMPLATES


def _is_expression(value: Any) -> bool:
    """Whether a text that parses is one `{{ expression }}` alone, which yields a value and not text."""
    if not isinstance(value, str) or not value.strip().startswith("{{"):
        return False
    kinds = [kind for _, kind, _ in _LEXER.lex(value.strip())]
    return kinds[-1:] == ["variable_end"] and kinds.count("variable_begin") == 1


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
    broken = isinstance(value, str) and _check(value) is not None
    if broken or _is_expression(value):
        check_templates(reader, value, path, secrets=False)
    else:
        reader.value(path, "DSL602", f"{named(path)} is {short(value)}, not an expression", fix)
    return value


def _check(text: str) -> tuple[str, int] | None:
    return _remembered(text) if len(text) <= CACHED_CHARS else template.check(text)


@lru_cache(maxsize=4096)
def _remembered(text: str) -> tuple[str, int] | None:
    return template.check(text)

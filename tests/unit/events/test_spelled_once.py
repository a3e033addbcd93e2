"""A subject or a header that is spelled in two places is changed in one of them."""

import re

import pytest

from shared.events import headers, subjects
from tests.support.sources import texts, texts_in

SUBJECTS, HEADERS, API = "shared/events/subjects.py", "shared/events/headers.py", "shared/bus/api.py"
OURS = "|".join(sorted({
    value.split(".")[1] for value in vars(subjects).values()
    if isinstance(value, str) and value.startswith(f"{subjects.ROOT}.")
}))
SPELLED = {
    # Tables of the read model begin in the same way: `noetl.event`, `noetl.execution`.
    SUBJECTS: re.compile(rf"\bnoetl\.({OURS})\b|^noetl\.$|\$KV\b|_INBOX"),
    HEADERS: re.compile(r"\b(Nats|Noetl|KV)-([A-Z]|$)"),
    API: re.compile(r"\$JS\b|\b(STREAM|CONSUMER)\.[A-Z]|\bDIRECT\.GET\b"),
}


def test_a_subject_or_header_is_spelled_in_one_module() -> None:
    said = list(texts_in("shared", "services"))
    assert len({file for file, _, _ in said}) > 500
    assert [
        f"{file}:{line}: {text[:60]!r} belongs in {home}"
        for file, line, text in said for home, spelled in SPELLED.items() if file != home and spelled.search(text)
    ] == []


@pytest.mark.parametrize("source", [
    'a = "noetl.requests.execute"', 'a = f"noetl.events.{p}.>"', 'a = f"noetl.{what}"', 'a = f"$KV.{bucket}.{key}"',
    'a = f"_INBOX_{user}"', 'a = {"Nats-Msg-Id": key}', 'a = b"NATS/1.0\\r\\nNats-Sequence: 1"', 'a = "Nats-" + name',
    'a = "Noetl-Reply-To"', 'a = "KV-Operation"', 'a = f"$JS.API.{what}"', 'a = f"STREAM.INFO.{name}"',
    'a = "STREAM.NAMES"',
])
def test_what_is_spelled_is_found(source: str) -> None:
    assert any(spelled.search(text) for _, text in texts(source) for spelled in SPELLED.values())


@pytest.mark.parametrize("source", [
    '"""On `noetl.events.0.x.router`."""', 'a = "SELECT * FROM noetl.event"', 'a = "KV_x"',
])
def test_docstrings_and_tables_are_no_subjects(source: str) -> None:
    assert not any(spelled.search(text) for _, text in texts(source) for spelled in SPELLED.values())


def test_no_header_has_two_names() -> None:
    names = [value for name, value in vars(headers).items() if name.isupper()]
    assert len(set(names)) == len(names)

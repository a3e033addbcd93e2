"""One faulty playbook for every code: the right code, line, column, message and fix, and nothing else.

`# strict` takes the canonical form alone; `# pools: a b` are the pools of the server it is for,
`# credentials: a b` its credentials. A document of kind Test is one of a playbook in `codes/books`."""

import re
from pathlib import Path

import pytest

from services.cli.commands.explain import command as explain
from shared.dsl.compile import Compiled, compile_playbook
from shared.dsl.documents.compile import kind_in
from shared.dsl.model.diagnostic_codes import CODES
from shared.dsl.model.plan import Plan
from shared.dsl.playtests.read import compile_test
from shared.dsl.source.nodes import MAX_SOURCE_ERRORS
from tests.unit.dsl.check.test_faulty_playbooks import FILES as FAULTY
from tests.unit.dsl.check.test_faulty_playbooks import expected
from tests.unit.dsl.tool_kinds import KINDS

FOLDER = Path(__file__).parent / "codes"
FILES = sorted(FOLDER.glob("*.yaml"))
LONG = {"DSL802"}  # it takes hundreds of mistakes: shown below


def compile_book(source: str) -> Compiled:
    pools = re.search(r"^# pools: (.+)$", source, re.MULTILINE)
    credentials = re.search(r"^# credentials: (.+)$", source, re.MULTILINE)
    return compile_playbook(source, kinds=KINDS, strict="# strict\n" in source,
                            pools=pools[1].split() if pools else None, programs=True,
                            credentials=credentials[1].split() if credentials else None)


def book(name: str) -> Plan | str:
    file = FOLDER / name
    plan = compile_playbook(file.read_bytes(), kinds=KINDS).plan if file.exists() else None
    return plan or "there is no such file"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_faulty_playbook_tells_code_place_message_and_fix(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    compiled = compile_test(source, book) if kind_in(source) == "Test" else compile_book(source)
    found = [(each.line, each.column, each.code, each.message, each.fix) for each in compiled.diagnostics]
    assert found == expected(source)
    assert {code for _, _, code, _, _ in found} == {file.stem.split("_")[0]}


def test_every_code_has_a_faulty_playbook() -> None:
    shown = {code for file in (*FILES, *FAULTY) for _, _, code, _, _ in expected(file.read_text(encoding="utf-8"))}
    assert sorted(CODES.keys() - shown) == sorted([*LONG, "DSL932"])  # what `migrate` alone tells


def test_there_are_at_least_as_many_faulty_playbooks_as_codes() -> None:
    assert len(FILES) + len(FAULTY) >= max(60, len(CODES))


def test_the_list_of_mistakes_ends_with_a_word_about_the_rest() -> None:
    source = "a: 1\n" * (MAX_SOURCE_ERRORS + 2)
    last = compile_playbook(source, kinds=KINDS).diagnostics[-1]
    assert str(last) == ("<playbook>:501:1: error DSL802: 500 mistakes, and reading stops here "
                         "(mend these and compile again)")


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_explained(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    explain.main([code], standalone_mode=False)
    assert CODES[code].doc in capsys.readouterr().out

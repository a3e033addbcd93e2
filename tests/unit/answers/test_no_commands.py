"""The core says what helps by a code: which command that is, whoever prints it knows."""

import re

from tests.support.sources import texts_in

COMMAND = re.compile(r"noetlctl|python -m")
# A fix of a diagnostic is a sentence for the author of a playbook, and part of what `validate` prints and documents.
FIXES = {
    "apply it with noetlctl ": "shared/dsl/read/root.py",
    "run it with noetlctl test FILE": "shared/dsl/read/root.py",
    "noetlctl credential ": "shared/dsl/check/credentials.py",
    "store the credential (noetlctl credential) under ": "shared/dsl/read/root.py",
    "name a playbook that `noetlctl validate` takes, from the folder of the test": "shared/dsl/playtests/playbooks.py",
}


def test_the_core_names_no_command() -> None:
    said = list(texts_in("shared/engine", "shared/answers", "shared/dsl", "shared/events"))
    assert {text: file for file, _, text in said if COMMAND.search(text)} == FIXES

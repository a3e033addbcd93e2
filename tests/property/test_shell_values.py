"""Whatever a value holds and wherever it stands in a shell program: it is data."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.dsl.templates.evaluate import render_shell
from shared.errors import TemplateError

BREAKERS = [
    "'", '"', "`", "$", "(", ")", "{", "}", "[", "]", "\\", ";", "&", "|", "<", ">", "#", "!", "*", "~", "=", " ", "\n",
    "\t", "END", "EOF", "$(", "${", "$((", "))", "touch owned", "$(touch owned)", "`touch owned`", "';touch owned;'",
    '";touch owned;"', "\ntouch owned\n", "\nEND\ntouch owned\n", "a[$(touch owned)]", "$NOETL_V0",
    "${NOETL_V0}", "é", "%s",
]
texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=3)
values = st.lists(st.sampled_from(BREAKERS) | texts, max_size=6).map("".join)
EXACT = [
    "printf %s {{ x }}", 'printf %s "{{ x }}"', "printf %s '{{ x }}'", 'printf %s "$(printf %s. "{{ x }}")"',
    "printf %s '\"'\"{{ x }}\"'\"'", "v={{ x }}\nprintf %s \"$v\"", "cat <<END\n{{ x }}\nEND\n",
    'f() { printf %s "$1"; }; f {{ x }}', "printf %s ${unset:-{{ x }}}",
]
AROUND = {3: ("", "."), 4: ('"', '"'), 6: ("", "\n")}
PIECES = [
    "echo ", "'", '"', "`", "$(", ")", "${v:-", "}", "$((", "))", "<<END\n", "\nEND\n", "# ", "\n", ";", "|", "\\",
    "[[ ", " ]]", " -eq ", "(", "a[", "]=", "$'", "<<<", "&&", "if true; then ", "; fi", "{ ", "{{ x }}", " {{ x }} ",
]


def _run(shell: str, program: str, env: dict[str, str], folder: str) -> bytes:
    done = subprocess.run(
        [shell, "-c", program], env={"PATH": "/usr/bin:/bin", **env}, cwd=folder, capture_output=True, timeout=20,
        check=False, stdin=subprocess.DEVNULL,
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["sh", "bash"])
@given(st.integers(0, len(EXACT) - 1), values)
@settings(max_examples=80, deadline=None)
def test_the_shell_sees_exactly_the_value(shell: str, which: int, value: str) -> None:
    script = render_shell(EXACT[which], {"x": value})
    before, after = AROUND.get(which, ("", ""))
    with tempfile.TemporaryDirectory() as folder:
        assert _run(shell, script.text, script.values, folder) == f"{before}{value}{after}".encode()
        assert list(Path(folder).iterdir()) == []


@pytest.mark.parametrize("shell", ["sh", "bash"])
@given(st.lists(st.sampled_from(PIECES), min_size=2, max_size=10), values)
@settings(max_examples=80, deadline=None)
def test_no_value_runs_a_command_whatever_the_program_looks_like(shell: str, pieces: list[str], value: str) -> None:
    """Also where the quotes make no sense, and the scanner and the shell see different things."""
    try:
        script = render_shell("".join(pieces), {"x": value})
    except TemplateError:
        return
    with tempfile.TemporaryDirectory() as folder:
        _run(shell, script.text, script.values, folder)
        assert not (Path(folder) / "owned").exists(), script

"""Which shell a program is written for, and what it costs to look."""

import time

import pytest

from shared.dsl.templates.shell_scanner import is_bash, places


@pytest.mark.parametrize("text", [
    "command -v docker &> /dev/null", "if [[ a == b ]]; then echo; fi", "cat <<< word", "a=(1 2)", "(( n > 1 ))",
    "echo $'a'", 'echo "$([[ -n $x ]] && echo 1)"', "echo 1 &>>log",
])
def test_what_only_bash_reads_as_it_is_meant(text: str) -> None:
    assert is_bash(text)


@pytest.mark.parametrize("text", [
    "echo a 2>&1 && echo b", "echo '[[ a ]] &> <<<'", 'echo "[[ (( $\'"', "# [[ &>", "[ a = b ]",
    "cat <<END\n[[ &> a=(\nEND",
    "echo $((1 + 1))", "(cd /; ls) & wait", "awk '{print a[b[1]]}'", "sed s/[[:space:]]//", "x='a=(1)'",
])
def test_what_every_shell_reads(text: str) -> None:
    assert not is_bash(text)


@pytest.mark.parametrize("piece", [
    "a", "a[", "$(", "${", "'", '"', "<<END\n", "<<", "(", "[[ ", "-eq", "a=(", "\\", "\n", "`", "#",
])
def test_the_time_grows_with_the_text_alone(piece: str) -> None:
    text = piece * (65_536 // len(piece)) + "&>\0"
    started = time.monotonic()
    places(text)
    is_bash(text)
    assert time.monotonic() - started < 5

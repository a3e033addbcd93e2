"""Shell texts: outputs are variables, never text of the program; a real shell reads them back."""

import subprocess
from typing import Any

import pytest

from shared.dsl.templates.evaluate import Script, render_shell
from shared.dsl.templates.shell import MAX_VARIABLE_BYTES, MAX_VARIABLES, misplaced
from shared.errors import TemplateError

NASTY = "a b$(echo no)`echo no`\"'; echo no #\\ * ~\n&& echo no"
SCOPE: dict[str, Any] = {
    "x": NASTY, "n": 4, "l": ["a b", "*"], "on": True, "off": False, "none": None, "d": {"k": [1]}, "e": [],
    "word": "w",
}


def _said(source: str, shell: str = "sh", scope: dict[str, Any] = SCOPE) -> str:
    script = render_shell(source, scope)
    env = {"PATH": "/usr/bin:/bin", **script.values}
    done = subprocess.run([shell, "-c", script.text], env=env, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout


@pytest.mark.parametrize(("source", "said"), [
    ("printf %s {{ x }}", NASTY),
    ('printf %s "{{ x }}"', NASTY),
    ("printf %s '{{ x }}'", NASTY),
    ("printf %s pre{{ x }}post", f"pre{NASTY}post"),
    ("printf %s {{ n }}:{{ x }}", f"4:{NASTY}"),
    ("printf %s \"it's '{{ x }}'\"", f"it's '{NASTY}'"),
    ("printf %s 'say \"{{ x }}\"'", f'say "{NASTY}"'),
    ('printf %s "$(printf %s "{{ x }}")"', NASTY),
    ("printf %s \"$(printf %s '{{ x }}')\"", NASTY),
    ("printf %s \"$(printf %s {{ x }} | cat)\"", NASTY),
    ('printf %s "`printf %s {{ word }}`"', "w"),
    ("v={{ x }}; printf %s \"$v\"", NASTY),
    ('printf %s "${none:-{{ x }}}"', NASTY),
    ("printf %s ${none:-{{ x }}}", NASTY),
    ("cat <<END\n{{ x }}\nEND\nprintf %s {{ word }}", f"{NASTY}\nw"),
    ("cat <<-END; printf %s {{ n }}\n\t{{ x }} '\n\tEND\nprintf %s {{ word }}", f"{NASTY} '\n4w"),
    ("cat <<A - <<'B'\n1 {{ n }}\nA\nB {{ 'x' if off else '' }}\nB\n", None),
    ("printf %s $(( {{ n }} * (1 + {{ n }})))", "20"),
    ('printf %s "$(( {{ n }} + 1 )) {{ x }}"', f"5 {NASTY}"),
    ("# it's {{ x }}\nprintf %s {{ word }} # {{ x }}", "w"),
    ("printf %s {{ word }}#{{ word }}", "w#w"),
    ("printf '<%s>' {{ l }}", "<a b><*>"),
    ("printf '<%s>' {{ l }} {{ e }};", "<a b><*>"),
    ("printf '<%s>' x{{ l }}", '<x["a b","*"]>'),
    ("printf '<%s>' \"{{ l }}\"", '<["a b","*"]>'),
    ('printf %s "{{ on }} {{ off }} {{ none }} {{ d }} {{ 1.5 }}"', 'true false  {"k":[1]} 1.5'),
    ('if [ "{{ on }}" = "true" ] && [ {{ n }} -gt 3 ]; then printf yes; fi', "yes"),
    ("{% for each in l %}printf '<%s>' {{ each }}\n{% endfor %}", "<a b><*>"),
    ("{% if off %}printf %s {{ gone }}{% else %}printf {{ word }}{% endif %}", "w"),
    ("printf %s \\\"{{ word }}\\\"", '"w"'),
    ("(printf %s {{ word }}); case {{ word }} in w) printf %s {{ n }};; esac", "w4"),
])
def test_a_shell_gets_the_value_as_it_is(source: str, said: str | None) -> None:
    if said is None:
        with pytest.raises(TemplateError, match="quoted end"):
            render_shell(source, SCOPE)
        return
    assert _said(source) == said
    assert _said(source, "bash") == said


@pytest.mark.parametrize(("source", "said"), [
    ("printf %s $'{{ x }}\\t!'", f"{NASTY}\t!"),
    ('[[ "{{ x }}" == "{{ x }}" && {{ n }} -gt 3 ]] && printf yes', "yes"),
    ("a=(x y z z last); printf %s ${a[{{ n }}]} ${a[0]:{{ n - 4 }}}", "lastx"),
    ("a[{{ n }}]=1; (( {{ n }} > 3 )) && printf %s $[ {{ n }} + 1 ]", "5"),
    ("cat <<< {{ word }}", "w\n"),
])
def test_what_only_bash_knows(source: str, said: str) -> None:
    assert _said(source, "bash") == said


@pytest.mark.parametrize("source", [
    "echo $(( {{ x }} ))", 'echo "$(( 1 + {{ x }} ))"', "(( {{ x }} ))", "echo $[ {{ x }} ]", "echo ${a[{{ x }}]}",
    "echo ${a:{{ x }}}", "a[{{ x }}]=1", '[[ "{{ x }}" -eq 1 ]]', "[[ 1 -lt {{ x }} ]]",
])
def test_arithmetic_evaluates_what_it_gets_so_it_gets_numbers_only(source: str) -> None:
    with pytest.raises(TemplateError, match="whole number"):
        render_shell(source, {"x": "a[$(touch owned)]"})
    assert render_shell(source, {"x": "-12"}).values == {"NOETL_V0": "-12"}


def test_equal_values_share_a_variable_also_between_the_programs_of_a_list() -> None:
    first, second, third = render_shell(["echo {{ n }} {{ word }}", "echo {{ word }} {{ on }}", "echo"], SCOPE)
    assert first == Script('echo "${NOETL_V0}" "${NOETL_V1}"', {"NOETL_V0": "4", "NOETL_V1": "w"})
    assert second.text == 'echo "${NOETL_V1}" "${NOETL_V2}"'
    assert second.values | first.values == {"NOETL_V0": "4", "NOETL_V1": "w", "NOETL_V2": "true"}
    assert third == Script("echo", {})


@pytest.mark.parametrize(("value", "message"), [
    ("a\0b", "NUL"), ("\ud800", "Unicode"), ("x" * (MAX_VARIABLE_BYTES + 1), str(MAX_VARIABLE_BYTES)),
])
def test_a_value_no_environment_can_hold_is_refused(value: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        render_shell("echo {{ x }}", {"x": value})


def test_all_values_together_are_bounded() -> None:
    many = [f"{i}" + "x" * (MAX_VARIABLE_BYTES - 10) for i in range(MAX_VARIABLES // MAX_VARIABLE_BYTES + 1)]
    with pytest.raises(TemplateError, match=str(MAX_VARIABLES)):
        render_shell("echo {{ many }}", {"many": many})
    assert render_shell("echo {{ many }}", {"many": many[:-1]}).values


def test_an_undefined_value_names_the_expression() -> None:
    with pytest.raises(TemplateError, match="'gone' is undefined"):
        render_shell("echo\necho {{ gone }}", SCOPE)


@pytest.mark.parametrize(("source", "line", "message"), [
    ("{{ x }}", 0, "the command itself is a value"),
    (" {{ x }}\n", 0, "the command itself is a value"),
    ("cat <<'END'\na\n{{ x }}\nEND\n", 2, "quoted end"),
    ("cat <<\\END\n{{ x }}\nEND\n", 1, "quoted end"),
])
def test_an_output_without_a_place_is_told_with_its_line(source: str, line: int, message: str) -> None:
    found = misplaced(source)
    assert found is not None
    assert (found[1], message in found[0]) == (line, True)
    with pytest.raises(TemplateError, match=message):
        render_shell(source, SCOPE)


@pytest.mark.parametrize("source", [
    "echo", "echo {{ x }}", "cat <<'END'\nplain\nEND\necho {{ x }}", "{% if x %}a{% endif %}",
])
def test_what_can_be_rendered_is_not_told(source: str) -> None:
    assert misplaced(source) is None

"""Every command there is, whoever wrote it: help, an example, and a documented shape of its JSON."""

import re
import subprocess
import sys

import click
import pytest

from services.cli import main
from services.cli.console import exits
from tests.support.cli import environment, noetlctl
from tests.support.documents import tree
from tests.support.paths import ROOT

COMMANDS = tree.commands()
LIST = tree.PAGE.read_text(encoding="utf-8").split("## Conventions")[0]
HEAVY = ("asyncpg", "duckdb", "nats", "aiohttp", "uvloop", "rich", "jinja2", "structlog",
         "shared.bus", "shared.dsl", "shared.engine", "shared.tools", "shared.runtime")
AT_START = (*HEAVY, "msgspec", "yaml", "asyncio", "services.cli.stack.context")
MAX_MODULES = 200  # for `noetlctl --help`, those of Python itself included


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_an_example(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help, "say in its docstring what it does"
    example = (command.epilog or "").lstrip("\b\n")
    assert example.startswith("Example"), "give it epilog='Example: noetlctl …'"
    assert f"noetlctl {' '.join(path)}" in example


def test_several_examples_have_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # laid out once, however often it is asked for
        assert noetlctl("retry-failed", "--help") == exits.OK
        lines = capsys.readouterr().out.splitlines()
        assert lines[-3].strip() == "Examples:"
        assert all(line.strip().startswith("noetlctl retry-failed ") for line in lines[-2:])


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_says_what_it_is_for(path: tuple[str, ...]) -> None:
    silent = [param.name for param in COMMANDS[path].params if isinstance(param, click.Option) and not param.help]
    assert silent == []


@pytest.mark.parametrize("path", [path for path, it in COMMANDS.items() if {"json", "jsonl"} & set(tree.formats(it))],
                         ids=" ".join)
def test_json_has_a_documented_shape(path: tuple[str, ...]) -> None:
    typed = " ".join(path)
    assert tree.is_documented(typed), f"give it a row in docs/cli.md under '{tree.JSON}', or a section with '-o json'"


def test_no_documented_command_is_missing() -> None:
    known = {" ".join(path) for path in COMMANDS}
    stale = [typed for typed in tree.shapes() if not any(f"{typed} ".startswith(f"{each} ") for each in known)]
    assert stale == []


@pytest.mark.parametrize("name", main.COMMANDS)
def test_the_table_of_commands_has_it(name: str) -> None:
    assert re.search(rf"^\| `noetlctl {name}[ `]", LIST, re.MULTILINE)


def _modules(code: str) -> list[str]:
    text = f"import sys\nfrom services.cli import main\n{code}\nsys.stderr.write('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, env=environment(),
                          timeout=60, check=True)
    return done.stderr.splitlines()


def _among(modules: list[str], heavy: tuple[str, ...]) -> list[str]:
    return [each for each in modules if any(each == name or each.startswith(name + ".") for name in heavy)]


def test_help_imports_next_to_nothing() -> None:
    modules = _modules("try:\n main.main(['--help'])\nexcept SystemExit:\n pass")
    assert _among(modules, AT_START) == []
    assert len(modules) < MAX_MODULES


def test_no_command_imports_what_it_needs_before_it_runs() -> None:
    modules = _modules("import click\nfor name in main.COMMANDS: main.cli.get_command(click.Context(main.cli), name)")
    assert _among(modules, HEAVY) == []

"""`kind: shell`: commands in a shell. Values reach it as variables, never as text of the program
(shared/dsl/templates/shell.py). An exit code other than 0 is an error outcome with `error.exit_code`."""

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import IO, Any

import msgspec

from shared.dsl.templates.shell_scanner import is_bash
from shared.events.outcome import Outcome, failed, ok
from shared.tools.base.contract import RESULT_LIMIT, Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, TooLarge, guarded, mapping, one_of, time_limit
from shared.tools.base.inherited import inherited

_SHELLS = ("sh", "/bin/sh", "bash", "/bin/bash", "dash", "ksh", "zsh")
_COMMANDS = ("cmds", "commands", "command", "cmd")
_SAME = KeySpec("The same as cmds.", shell=True)

SPEC = ToolSpec(
    kind="shell",
    doc="Runs commands in a shell, in a folder of their own. Result: {exit_code, stdout, stderr}.",
    keys={
        "cmds": KeySpec("A program, or a list of programs that run in one shell one after the other; the first that "
                        "fails ends the call.", shell=True),
        "commands": _SAME,
        "command": _SAME,
        "cmd": _SAME,
        "shell": KeySpec("sh unless given, or bash for a program with [[ ]], (( )), &>, <<<, a=( ) or $' '.",
                         choices=_SHELLS),
        "cwd": KeySpec("Folder to run in; an empty one, removed afterwards, unless given."),
        "working_dir": KeySpec("The same as cwd."),
        "env": KeySpec("Mapping of environment variables; lists and mappings are given as JSON."),
        "args": KeySpec("The same as env."),
        "stdin": KeySpec("Text to read; anything else is given as JSON."),
        "exit_codes": KeySpec("List of exit codes that are no error, [0] unless given."),
        "output": KeySpec("json: stdout is JSON, given as `data` in the result.", choices=("text", "json")),
        "auth": KeySpec("Credential: each field is a variable, AUTH_<FIELD>."),
    },
    one_of=_COMMANDS,
)

SCRIPT_LIMIT = 131_000  # bytes: Linux allows 128 KiB for one argument
MESSAGE_TAIL = 500      # characters of stderr in the error's message
_STOP = "\ncase $? in 0) ;; *) exit $? ;; esac\n"  # between the programs of a list
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class ShellTool:
    def __init__(self, options: ToolOptions) -> None:
        from shared.tools.shell.process import Lost, Process, Wardens

        self._process, self._lost, self._wardens = Process, Lost, Wardens()
        self._folder = options.temp_folder or None

    async def run(self, call: Call) -> Outcome:
        return await guarded(call, self._run(call))

    async def close(self) -> None:
        await asyncio.to_thread(self._wardens.close)

    async def _run(self, call: Call) -> Outcome:
        text, values = program(call.config)
        shell = call.config.get("shell") or ("bash" if is_bash(text) else "sh")
        if shell not in _SHELLS:
            raise BadCall(f"shell must be one of {', '.join(_SHELLS)}")
        command = [str(shell), "-c", text, "noetl"]
        env = {**inherited(), **_variables(call), **values}
        codes = _codes(call.config.get("exit_codes"))
        async with self._place(call.config) as folder:
            with _stdin(call.config.get("stdin")) as stdin:
                process = self._process(self._wardens, command, env, folder, stdin)
            if call.printing is not None:
                call.printing.so_far = process.streams
            try:
                code = await process.finish()
            except asyncio.CancelledError:
                # Over its time: what was said so far is worth keeping. A call that is cancelled from outside
                # drops this outcome and continues to be cancelled.
                said = _said(process.stdout.text(), process.stderr.text())
                return failed("timeout", f"no result within {time_limit(call):g} s", retryable=True, result=said)
            except self._lost as error:
                return failed("crash", str(error), retryable=True)
        said = {"exit_code": code, **_said(process.stdout.text(), process.stderr.text())}
        if code not in codes:
            return failed("shell", _message(code, said["stderr"]), result=said, details={"exit_code": code})
        if call.config.get("output") == "json":
            if not process.stdout.whole:
                raise TooLarge("stdout is over the limit and cut: too much to read as JSON")
            return _parsed(said)
        return ok(said)

    @contextlib.asynccontextmanager
    async def _place(self, config: Mapping[str, Any]) -> AsyncIterator[str]:
        given = one_of(config, "cwd", "working_dir")
        if given is not None:
            if not isinstance(given[1], str) or not await asyncio.to_thread(os.path.isdir, given[1]):
                raise BadCall(f"{given[0]} is not a folder on this worker")
            yield given[1]
            return
        folder = tempfile.mkdtemp(prefix="noetl-shell-", dir=self._folder)
        try:
            yield folder
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def program(config: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The text of the program and the variables it reads."""
    given = one_of(config, *_COMMANDS)
    if given is None:
        raise BadCall(f"one of {', '.join(_COMMANDS)} is needed")
    name, value = given
    parts = value if isinstance(value, list) else [value]
    texts: list[str] = []
    values: dict[str, str] = {}
    for part in parts:
        text = part if isinstance(part, str) else getattr(part, "text", None)
        if not isinstance(text, str) or not text.strip():
            raise BadCall(f"{name} must be a program, or a list of programs")
        texts.append(text)
        values |= getattr(part, "values", {})
    whole = _STOP.join(texts)
    if "\0" in whole:
        raise BadCall(f"{name} holds a NUL character")
    if len(whole.encode("utf-8", "replace")) > SCRIPT_LIMIT:
        raise TooLarge(f"the program is over {SCRIPT_LIMIT} bytes: keep it in a file, or hand data over in stdin")
    if not texts:
        raise BadCall(f"{name} holds no program")
    return whole, values


def _variables(call: Call) -> dict[str, str]:
    from shared.dsl.templates.shell import as_text, check_variable

    fields = {re.sub("[^A-Za-z0-9]", "_", str(name)).upper(): value for name, value in (call.auth or {}).items()}
    auth = {f"AUTH_{name}": value for name, value in fields.items()}
    found: dict[str, str] = {}
    for name, value in {**auth, **mapping(call.config, "args"), **mapping(call.config, "env")}.items():
        if not _NAME.match(str(name)):
            raise BadCall(f"a variable cannot be called {str(name)[:60]!r}: letters, digits and _")
        found[str(name)] = as_text(value)
        try:
            check_variable(found[str(name)])
        except Exception as error:
            raise BadCall(f"variable {name}: {error}") from None
    return found


def _codes(given: Any) -> list[int]:
    if given is None:
        return [0]
    if not isinstance(given, list) or not all(type(code) is int for code in given):
        raise BadCall("exit_codes must be a list of whole numbers")
    return given


@contextlib.contextmanager
def _stdin(given: Any) -> Iterator[IO[bytes]]:
    data = b"" if given is None else given.encode() if isinstance(given, str) else msgspec.json.encode(given)
    if len(data) > RESULT_LIMIT:
        raise TooLarge(f"stdin is over {RESULT_LIMIT} bytes")
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


def _said(stdout: str, stderr: str) -> dict[str, Any]:
    return {"stdout": stdout, "stderr": stderr}


def _message(code: int, stderr: str) -> str:
    last = stderr.strip()[-MESSAGE_TAIL:].strip()
    return f"exit code {code}" + (f": {last}" if last else "")


def _parsed(said: dict[str, Any]) -> Outcome:
    try:
        return ok({**said, "data": msgspec.json.decode(said["stdout"])})
    except msgspec.DecodeError as error:
        return failed("decode", f"stdout is not JSON: {error}", result=said)

"""How the code of a `python` task is run: `result = …`, a top-level `return …`, or a `main(…)` that is
called with the args it names."""

import ast
import asyncio
import builtins
import datetime
import faulthandler
import functools
import hashlib
import importlib
import inspect
import json
import linecache
import os
import re
import sys
import traceback
import types
import uuid
from collections.abc import Callable
from keyword import iskeyword
from typing import Any

import msgspec

from shared.errors import Signal
from shared.tools.base import json_value
from shared.tools.base.contract import RESULT_LIMIT

MODULE = "noetl_task"
ALL_ARGS = ("input_data", "args")  # variables, and parameters of `main`, that hold all args unless one is called so
AT_HAND = {"datetime": datetime, "json": json, "os": os, "uuid": uuid}  # modules that programs count on without import
BODY = "__task__"           # the function a code with a top-level `return` becomes
COMPILED = 256              # programs kept compiled
TRACEBACK_LIMIT = 8 * 1024  # characters, the last ones
MESSAGE_LIMIT = 8 * 1024    # characters of an error's own text, the first ones
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # the name that a requirement begins with
_MISSING = object()
_names = vars(builtins)
_BUILTINS = dict(_names)
changed: list[str] = []     # that a call changed them

_encoder = msgspec.json.Encoder()


def run(code: str, args: dict[str, Any], libs: dict[str, str]) -> dict[str, Any]:
    """The fields of a reply; user code may raise anything, also SystemExit."""
    home, module = os.getpid(), types.ModuleType(MODULE)
    try:
        try:
            value = _value(module, code, args, libs)
        except BaseException as error:
            _restore()
            _only_at(home, error)
            return _failure(error)
        _restore()
        _only_at(home)
        return _reply(value)
    finally:
        asyncio.set_event_loop_policy(None)  # with the loop that is current: a new process has none
        faulthandler.cancel_dump_traceback_later()
        sys.modules.pop(MODULE, None)
        vars(module).clear()  # what the names held ends with the call, cycles or not


def _restore() -> None:
    """What follows is ours and goes by Python's own names: an answer framed by the author's `len` never ends."""
    if _names != _BUILTINS:
        _names.clear()
        _names.update(_BUILTINS)
        changed.append("builtins")


def _only_at(home: int, error: BaseException | None = None) -> None:
    """A copy that the code made of its process ends where the code ends: the answer is not its to give."""
    if os.getpid() == home:
        return
    code = error.code if isinstance(error, SystemExit) else error and 1
    os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


def _reply(value: Any) -> dict[str, Any]:
    try:
        encoded = _encode(value)
    except _NotJson as error:
        return {"kind": "result", "error": str(error)}
    except BaseException as error:  # of code that makes the value JSON
        return _failure(error)
    if len(encoded) > RESULT_LIMIT:
        return {"kind": "limit", "error": f"the result is over {RESULT_LIMIT} bytes"}
    return {"result": msgspec.Raw(encoded)}


class _NotJson(Signal):
    """Why the result cannot be handed over."""


def _encode(value: Any) -> bytes:
    try:
        encoded = _encoder.encode(value)
        where = json_value.lost(value, encoded)
    except (TypeError, ValueError, RecursionError) as error:
        raise _NotJson(f"the result is not JSON: {_text(error)}") from None
    if where:
        raise _NotJson(f"the result is not JSON: {where}")
    return encoded


def _value(module: types.ModuleType, code: str, args: dict[str, Any], libs: dict[str, str]) -> Any:
    sys.modules[MODULE] = module  # dataclasses and pickle look their module up
    names = module.__dict__
    names.update(AT_HAND)
    for alias, target in libs.items():
        try:
            _import(alias, target, names)
        except ModuleNotFoundError as error:
            if alias != target or error.name != target or not _is_installed(target):
                raise
    variables: dict[str, Any] = {name: dict(args) for name in ALL_ARGS}
    variables |= {name: value for name, value in args.items() if name.isidentifier() and not iskeyword(name)}
    names.update(variables)
    program, wrapped = _compiled(code, tuple(sorted(variables)))
    exec(program, names)
    if wrapped:
        return _settled(names[BODY](**variables, __finish__=functools.partial(_conclude, args=args)))
    return _settled(_conclude(names, args))


def _import(alias: str, target: str, names: dict[str, Any]) -> None:
    """A dotted alias binds its first part, as `import a.b` does; `module:name` is `from module import name`."""
    target, _, member = target.partition(":")
    if member:
        names[alias] = _member(importlib.import_module(target), member)
        return
    found = importlib.import_module(target)
    first = alias.partition(".")[0]
    names[first] = found if first == alias else sys.modules[target.partition(".")[0]]


def _is_installed(package: str) -> bool:
    """Whether pip knows a package of that name: the code itself imports the modules in it."""
    from importlib import metadata  # heavy, and seldom needed

    name = _REQUIREMENT.match(package)
    try:
        metadata.distribution(name[0] if name else package)
    except (metadata.PackageNotFoundError, ValueError):
        return False
    return True


def _member(module: types.ModuleType, name: str) -> Any:
    """A name of the module, or a module inside it that is not imported yet."""
    if hasattr(module, name):
        return getattr(module, name)
    try:
        return importlib.import_module(f"{module.__name__}.{name}")
    except ModuleNotFoundError:
        raise ImportError(f"cannot import name {name!r} from {module.__name__!r}") from None


def _conclude(names: dict[str, Any], args: dict[str, Any]) -> Any:
    """`result` if it was set, else what `main` returns, else nothing."""
    if "result" in names and names["result"] is not args.get("result", _MISSING):
        return names["result"]
    main = names.get("main")
    if callable(main) and getattr(main, "__module__", None) == MODULE:
        return main(**_matching(main, args))
    return names.get("result")


def _settled(value: Any) -> Any:
    if not inspect.iscoroutine(value):
        return value
    with asyncio.Runner() as runner:
        return runner.run(value)


def _matching(main: Callable[..., Any], args: dict[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(main).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return args
    given = {**{name: dict(args) for name in ALL_ARGS}, **args}
    return {parameter.name: given[parameter.name] for parameter in parameters if parameter.name in given}


@functools.lru_cache(maxsize=COMPILED)
def _compiled(code: str, variables: tuple[str, ...]) -> tuple[types.CodeType, bool]:
    """The program, and whether it became a function because it returns at the top level."""
    name = f"<python {hashlib.sha256(code.encode()).hexdigest()[:12]}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    tree = ast.parse(code, name)
    wrapped = any(_returns(statement) for statement in tree.body)
    if wrapped:
        tree = _as_function(tree, variables)
    return compile(tree, name, "exec", dont_inherit=True), wrapped


def _returns(node: ast.AST) -> bool:
    if isinstance(node, ast.Return):
        return True
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return False
    return any(_returns(child) for child in ast.iter_child_nodes(node))


def _as_function(tree: ast.Module, variables: tuple[str, ...]) -> ast.Module:
    """The args become parameters, so that code may assign to them; every node keeps its line."""
    start = next((i for i, node in enumerate(tree.body) if not _stays_first(node)), len(tree.body))
    shell = ast.parse(f"def {BODY}({', '.join((*variables, '__finish__'))}):\n return __finish__(locals())")
    function = shell.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body[:0] = tree.body[start:]
    return ast.Module([*tree.body[:start], function], [])


def _stays_first(node: ast.stmt) -> bool:
    """`from __future__` must open a module; a docstring may stand before it."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _failure(error: BaseException) -> dict[str, Any]:
    kind, said = type(error).__name__, _text(error)
    return {
        "kind": "python",
        "error": f"{kind}: {said}" if said else kind,
        "exception_type": kind,
        "traceback": _traceback(error),
    }


def _text(error: BaseException) -> str:
    """Of an error that may be the author's own: it need not have one."""
    try:
        return _plain(str(error)[:MESSAGE_LIMIT])
    except BaseException:
        return "its text cannot be read"


def _plain(text: str) -> str:
    """What UTF-8 can hold of it."""
    return text.encode("utf-8", "replace").decode()


def _traceback(error: BaseException) -> str:
    """From the first line of the task's own code on: how it got there is ours, not the author's."""
    frame = error.__traceback__
    while frame is not None and not frame.tb_frame.f_code.co_filename.startswith("<python "):
        frame = frame.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, frame))
    except BaseException:  # of code that makes the error text
        text = "".join(traceback.format_tb(frame))
    return _plain(text if len(text) <= TRACEBACK_LIMIT else "…" + text[-TRACEBACK_LIMIT:])

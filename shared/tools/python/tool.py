"""`kind: python`: the author's code, in a warm process of its own."""

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shared.dsl.model.wholes import WholeLoop, WholeTable
from shared.events.outcome import Outcome, failed, mark, ok, shape_of
from shared.tools.base.contract import Call, KeySpec, ToolOptions, ToolSpec
from shared.tools.base.guard import BadCall, guarded, mapping
from shared.tools.scripts import loader as script

if TYPE_CHECKING:
    from shared.tools.python.child import Reply
    from shared.tools.python.whole_results import Path

LOOKED_AT = 1_000  # nodes of the args, where whole results may be
LISTED = 100  # elements of a list that an author may have written
_CONTAINERS = (dict, list, WholeLoop, WholeTable)

SPEC = ToolSpec(
    kind="python",
    doc="Runs Python code in a process of its own. Its result must be JSON.",
    keys={
        "code": KeySpec("The program, taken as written. It sets `result`, returns at the top level, or "
                        "defines `main(…)`, also async, which gets the args it names; `args` and `input_data` are all "
                        "of them.",
                        template=False, python=True),
        "script": script.key("Instead of code: where its text is loaded from when the task runs."),
        "args": KeySpec("Mapping of variables the code sees.", program=True),
        "libs": KeySpec("Modules to import: a list of names, or a mapping from alias to module, or to "
                        "{from: module, import: name}. In a list also packages by the names they are installed by, "
                        "such as psycopg2-binary: they must be there, and the code imports what it needs."),
        "auth": KeySpec("Credential the code sees as the variable `auth`; with aliases, a mapping of them."),
    },
    one_of=("code", "script"),
    aliases=True,
    blocks={"py": {"exception_type": None}},
)


class PythonTool:
    def __init__(self, options: ToolOptions) -> None:
        from shared.tools.python.pool import Crashed, Pool

        self._crashed = Crashed
        self._pool = Pool(options.python_processes, options.temp_folder)
        self._scripts = script.Scripts(options)

    async def run(self, call: Call) -> Outcome:
        printed: dict[str, Any] = {}
        return await guarded(call, self._run(call, printed), py=blank(), meta=printed)

    async def close(self) -> None:
        await self._pool.close()

    async def _run(self, call: Call, printed: dict[str, Any]) -> Outcome:
        """`printed` is what a call says that has no answer."""
        from shared.tools.python.child import Request

        call = await self._scripts.as_code(call)
        code = call.config.get("code")
        if not isinstance(code, str):
            raise BadCall("code must be text")
        args = {str(name): value for name, value in mapping(call.config, "args").items()}
        if call.auth:
            args.setdefault("auth", dict(call.auth))
        try:
            libs = _libs(call.config.get("libs"))
            loops, tables = _wholes(args)
            asked = Request(code, args, libs, call=call.idempotency_key, loops=loops, tables=tables)
            return _outcome(await self._pool.ask(asked, printed, call.printing))
        except self._crashed as error:
            return failed("crash", str(error), retryable=True, py=blank(), meta=printed)


def blank() -> dict[str, Any]:
    return dict(SPEC.blocks["py"])


def _outcome(reply: "Reply") -> Outcome:
    meta, named = {"stdout": reply.stdout} if reply.stdout else {}, mark(reply.call)
    if reply.error is None:
        return ok(reply.result, shape=shape_of(reply.result), py=blank(), meta=meta, call=named)
    py = blank()
    if reply.exception_type:
        py = {"exception_type": reply.exception_type, "traceback": reply.traceback}
    return failed(reply.kind, reply.error, py=py, meta=meta, call=named)


def _libs(given: Any) -> dict[str, str]:
    """Alias → module, or module:name; the names of a list stand for themselves."""
    match given:
        case None:
            return {}
        case str():
            return _libs([given])
        case Mapping():
            return {str(alias): _module(str(alias), module) for alias, module in given.items()}
        case list() | tuple() if all(isinstance(name, str) for name in given):
            return {name: name for name in given}
        case _:
            raise BadCall("libs must be a list of module names or a mapping from alias to module")


def _module(alias: str, given: Any) -> str:
    """What `python_code` imports: a module, or `module:name` for a name out of it."""
    match given:
        case None | "":
            return alias
        case str():
            return given
        case {"from": str(module), "import": str(name), **rest} if not rest:
            return f"{module}:{name}"
        case {"import": str(module), **rest} if not rest:
            return module
        case _:
            raise BadCall(f"libs.{alias[:60]} must be a module's name or {{from: module, import: name}}")


def _wholes(args: dict[str, Any]) -> "tuple[list[tuple[Path, int, int]], list[Path]]":
    """Where the args hold a whole loop: the path, how many iterations it had, how many of them failed; and where a
    whole table. Only the first nodes are looked at: they are where the author's args name them, not deep in data."""
    found: list[tuple[Path, int, int]] = []
    tables: list[Path] = []
    nodes = deque[tuple["Path", Any]]([([], args)])
    for _ in range(LOOKED_AT):
        if not nodes:
            break
        path, node = nodes.popleft()
        if type(node) is WholeLoop:
            found.append((path, node.iterations, node.failed))
        elif type(node) is WholeTable:
            tables.append(path)
        elif type(node) is dict or (type(node) is list and len(node) <= LISTED):
            entries = node.items() if type(node) is dict else enumerate(node)
            nodes.extend(([*path, key], each) for key, each in entries if type(each) in _CONTAINERS)
    return found, tables

"""Stepping through the log of an execution: a place in it, and what there is to say about that place."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from services.cli.console.exits import CliError
from services.cli.console.times import FORMS, moment, shown
from services.cli.executions.logbook import Logbook
from shared.answers.debug.moment import Moment, plain, position_of
from shared.answers.debug.scope import NoSuchRun, evaluated, key_of
from shared.answers.debug.shape import record_shape, shape
from shared.answers.history.history import Key
from shared.errors import TemplateError

PROMPT = "debug> "
MAX_TEXT = 160  # of a value within a line
HELP = """n [COUNT]      the next record
p [COUNT]      the one before
g SEQ|#N|TIME  go there
s              the state here
r              the record here, whole
e EXPR         the value of an expression here
u [RUN[.I]]    see what this run sees; without one, what the execution has
q              end"""


class Debugger:
    """`use` says whose scope expressions have, `go` moves; the rest looks."""

    def __init__(self, book: Logbook) -> None:
        self._book = book
        self._position = len(book.entries)
        self._key: Key | None = None

    def use(self, run: str | None) -> None:
        try:
            self._key = key_of(run) if run else None
        except ValueError as error:
            raise CliError(str(error)) from None

    def go(self, at: str) -> None:
        """To a sequence, `#n`, or a time as people write it."""
        try:
            if not at.removeprefix("#").isdecimal():
                at = moment(at, datetime.now(UTC)).isoformat()
        except (ValueError, OverflowError, OSError):
            raise CliError(f"{at!r} is no point of a log: write a sequence, #N, or a time such as {FORMS}") from None
        try:
            self._position = position_of(self._book.entries, at)
        except ValueError as error:
            raise CliError(str(error)) from None

    async def state(self) -> dict[str, Any]:
        return await self._book.ask(lambda: shape(self._moment()))

    async def value(self, expression: str) -> Any:
        try:
            return plain(await self._book.ask(lambda: evaluated(self._moment(), expression, self._key)))
        except (TemplateError, NoSuchRun) as error:
            raise CliError(str(error)) from None

    def _moment(self) -> Moment:
        book = self._book
        return Moment(book.execution_id, book.entries, self._position, book.plans, book.values)

    async def answer(self, line: str) -> str:
        """The answer to a command; CliError says what is wrong with it."""
        name, _, rest = line.partition(" ")
        rest = rest.strip()
        match name:
            case "":
                return ""
            case "n" | "p":
                self._move(rest, 1 if name == "n" else -1)
                return await self._here()
            case "g":
                self.go(rest)
                return await self._here()
            case "s":
                return self.text(await self.state())
            case "r":
                return _json(await self._book.ask(lambda: record_shape(self._moment())), indent=2)
            case "e":
                return _json(await self.value(rest))
            case "u":
                self.use(rest)
                return f"expressions see {rest or 'the execution'}"
            case "h" | "help" | "?":
                return HELP
        raise CliError(f"there is no command {name!r}: h lists them")

    def _move(self, count: str, way: int) -> None:
        if count and not count.isdecimal():
            raise CliError(f"{count!r} is not a number of records")
        wanted = self._position + way * int(count or 1)
        if not 1 <= wanted <= len(self._book.entries):
            raise CliError(f"the log has records #1 … #{len(self._book.entries)}")
        self._position = wanted

    async def _here(self) -> str:
        return self._line(await self._book.ask(lambda: record_shape(self._moment())))

    def _line(self, record: Mapping[str, Any]) -> str:
        events = ", ".join(_named(event) for event in record["events"])
        who = record["writer"] + (f" {record['lease']['worker']}" if record["lease"] else "")
        place = f"#{self._position} of {len(self._book.entries)}  seq {record['seq']}"
        return f"{place}  {shown(record['ts'], exact=True)}  {who}: {events}"

    def text(self, found: Mapping[str, Any]) -> str:
        """The state for people: a line per thing, nothing about what there is not."""
        lines = [self._line(found["record"]), f"status   {found['status']}{' (paused)' if found['paused'] else ''}"]
        lines += [f"token    {token['token_id']} at {token['step']}{_args(token)}" for token in found["tokens"]]
        lines += [_run_line(run) for run in found["runs"]]
        for loop in found["loops"]:
            lines += _loop_lines(loop)
        lines += [f"wait     {_place(wait)} {wait['for']}" for wait in found["waits"]]
        lines += [_key_line(each) for each in found["places"]]
        lines += [f"ctx      {key} = {_short(value)}" for key, value in found["ctx"].items()]
        lines += [f"result   {step} = {_short(value)}" for step, value in found["results"].items()]
        if found["error"]:
            lines.append(f"error    {_short(found['error'])}")
        return "\n".join(lines + _next_lines(found["next"]))


def _run_line(run: Mapping[str, Any]) -> str:
    line = f"run      {run['run_id']} {run['state']}"
    if run["task"]:
        line += f", task {run['task']} attempt {run['attempt']}"
    if run["worker"]:
        line += f", worker {run['worker']} epoch {run['epoch'][0]}.{run['epoch'][1]}"
    if run["end"]:
        line += f", {run['end']['event']}"
    return line + _args(run)


def _loop_lines(loop: Mapping[str, Any]) -> list[str]:
    count = "not started" if loop["count"] is None else (
        f"{loop['done']} done, {loop['failed']} failed, {len(loop['iterations'])} in flight of {loop['count']}, "
        f"at most {loop['max_in_flight']} at once")
    cursor = loop["cursor"]
    if cursor is not None:
        count += f", {cursor['claimed']} claimed in {cursor['frames']} frames" + (", no more" if cursor["dry"] else "")
    where = ", on one worker" if loop["local"] else ""
    lines = [f"loop     {loop['run_id']} {count}{where}{', stopped' if loop['stopped'] else ''}"]
    for each in loop["iterations"]:
        at = f"task {each['task']} attempt {each['attempt']}, worker {each['worker']}"
        lines.append(f"         [{each['index']}] {at if each['worker'] else 'in the queue'}")
    return lines


def _key_line(each: Mapping[str, Any]) -> str:
    who = _place(each) if each["run_id"] else "the execution"
    return f"place    {who} {'holds' if each['granted'] else 'waits for'} {each['key']}"


def _next_lines(following: Mapping[str, Any]) -> list[str]:
    lines = [f"next     {who}: {', '.join(_named(event) for event in following[who])}"
             for who in ("router", "scheduler") if following[who]]
    if following["commands"]:
        lines.append("command  " + ", ".join(_place(each) for each in following["commands"]))
    if following["due"]:
        lines.append(f"due      {following['due']}")
    return lines


def _named(event: Mapping[str, Any]) -> str:
    about = event.get("run_id") or event.get("task") or event.get("token_id") or ""
    return f"{event['event_type']} {about}".rstrip()


def _place(each: Mapping[str, Any]) -> str:
    return str(each["run_id"]) + (f".{each['index']}" if each["index"] >= 0 else "")


def _args(each: Mapping[str, Any]) -> str:
    return f", args {_short(each['args'])}" if each["args"] else ""


def _short(value: Any) -> str:
    text = _json(value)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)

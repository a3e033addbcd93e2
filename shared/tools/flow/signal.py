"""`kind: signal`: waits for a named signal from outside, such as a person's approval, without a worker."""

import re
from typing import Any

from shared.events import subjects
from shared.tools.base.contract import Call, KeySpec, ToolSpec, Waits
from shared.tools.base.guard import BadCall, mapping, own_limit, refusal
from shared.tools.flow.answering import waiting

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")

SPEC = ToolSpec(
    kind="signal",
    doc=f"Waits for a signal (noetlctl signal, {subjects.SIGNAL}). Result: the signal's payload.",
    keys={
        "signal": KeySpec("The name of the signal: letters, digits, _ . and -, at most 64.", required=True,
                          wrong=refusal(lambda value: _name({"signal": value}))),
        "schema": KeySpec("A JSON Schema; a signal whose payload does not fit is rejected.", template=False,
                          wrong=refusal(lambda value: _schema({"schema": value}))),
    },
    waits=True,
)


@waiting
def answer(call: Call) -> Waits:
    return Waits(signal=_name(call.config), schema=_schema(call.config), timeout_s=own_limit(call))


def _name(config: Any) -> str:
    name = config.get("signal")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadCall(f"signal: {str(name)[:60]!r} is not a name of letters, digits, _ . and -, at most 64")
    return name


def _schema(config: Any) -> dict[str, Any]:
    from jsonschema import Draft202012Validator, SchemaError

    from shared.dsl.templates.json_schema import problem

    schema = dict(mapping(config, "schema"))
    if wrong := problem(schema):
        raise BadCall(f"schema: {wrong}")

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise BadCall(f"schema: {error.message}") from None
    return schema

"""Handles of secrets in the keys of a call. What `kind: secrets` answers with says which credential it stands for, and
no value. Templates of a tool's keys read the value under the name of that step or task; everything else that reads the
name (rules, arcs, ctx, what a task waits for) sees the handle.

Only a result of that kind is a handle: a mapping that looks like one, in a payload or from a server, is a mapping.
"""

from collections.abc import Collection, Mapping
from typing import Any

from shared.dsl.templates.result_view import View
from shared.engine.pipeline.masked_keychain import Marked
from shared.engine.values.secret_values import PUBLIC
from shared.errors import TemplateError

SECRET, FIELD = "secret", "field"
VALUES = ("secret_value", "value")  # what people call it


def handles(used: Collection[str], names: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Those among the names that templates use."""
    found = ((name, names.get(name)) for name in used)
    return {name: value.secret for name, value in found if type(value) is View and value.secret}


def opened(handle: Mapping[str, str], credential: Mapping[str, Any] | None) -> View:
    """The value, for the keys of one call. A rehearsal has none to give, and marks it."""
    if credential is None:
        credential = Marked(handle[SECRET])
        return _shown(credential[handle.get(FIELD, "*")], credential)
    field = handle.get(FIELD)
    if field is None:
        only = [value for key, value in credential.items() if key.lower() not in PUBLIC and isinstance(value, str)]
        return _shown(only[0] if len(only) == 1 else credential, credential)
    if field not in credential:
        raise TemplateError(f"the secret {handle[SECRET]!r} has no field {field!r}")
    return _shown(credential[field], credential)


def _shown(value: Any, fields: Mapping[str, Any]) -> View:
    """`{{ step }}` is the value, `{{ step.token }}` a field."""
    return View({}, value, value, fields if isinstance(fields, Marked) else {**dict.fromkeys(VALUES, value), **fields})

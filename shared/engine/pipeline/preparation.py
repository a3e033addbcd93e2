"""What a call is made of, as steps: a task rendered with the names it sees, and its credentials."""

from collections.abc import Set
from typing import Any

from shared.dsl.model.plan import Task
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.templates.needs import names_used
from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline.call import Asked
from shared.engine.pipeline.effects import FindCredentials, FindKeychain, Found, Prepared, Steps
from shared.engine.pipeline.secret_handles import SECRET, handles, opened
from shared.errors import TemplateError
from shared.events.outcome import Outcome, failed


def empty() -> Prepared:
    """Of a task that has nothing to render."""
    return Prepared(Asked({}, {}, None, {}))


def prepare(task: Task, spec: ToolSpec, names: dict[str, Any], where: str) -> Steps[Prepared | Outcome]:
    """An Outcome is that of a call that cannot be made; `where` says whose it is."""
    if not task.config and not task.spec:
        return empty()
    secrets: dict[str, Any] = {}
    used: Set[str] = names_used(task.config).names if task.config else frozenset()
    if "keychain" in used:
        secrets = yield FindKeychain(names)
        names = {**names, "keychain": secrets}
    try:
        if held := handles(used, names) if not (spec.pure or spec.waits) else {}:
            values: Found | Outcome = yield FindCredentials(None, {name: each[SECRET] for name, each in held.items()})
            if isinstance(values, Outcome):
                return values
            secrets = {**secrets, **values.others}
            names = {**names, **{name: opened(each, values.others.get(name)) for name, each in held.items()}}
        asked = pipeline_call.rendered(task, spec.keys, names)
    except TemplateError as error:
        return failed(error.kind, f"{where}: {error}")
    found = Found()
    if asked.auth is not None or asked.credentials:
        looked_up: Found | Outcome = yield FindCredentials(asked.auth, asked.credentials)
        if isinstance(looked_up, Outcome):
            return looked_up
        found = looked_up
    return Prepared(asked, found, secrets)

"""Which credentials a playbook names, and whether they are stored. That is known only when a server is: the caller says
it."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from shared.dsl.check.plan_paths import Sites, listed
from shared.dsl.model.plan import Plan
from shared.dsl.read.reader import Reader, short
from shared.dsl.source.nodes import Path
from shared.dsl.templates.evaluate import is_template

AUTH = "auth"


def named(plan: Plan) -> list[str]:
    """Literal names alone: what a template makes of one is known later."""
    tasks = [name for step in plan.steps.values() for task in step.tasks for name in _names(task.config.get(AUTH))]
    return list(dict.fromkeys([*_declared(plan), *tasks]))


def check_credentials(reader: Reader, plan: Plan, sites: Sites, stored: Collection[str]) -> None:
    for name, index in _declared(plan).items():
        if name not in stored:
            _tell(reader, ("keychain", index), name, "no execution of it can start", stored)
    for step in plan.steps.values():
        for index, task in enumerate(step.tasks):
            path = (*sites.task(step.name, index), AUTH)
            for name in _names(task.config.get(AUTH)):
                if name not in stored and sites.has(path):
                    _tell(reader, path, name, f"{short(step.name)} cannot run", stored)


def _tell(reader: Reader, path: Path, name: str, so: str, stored: Collection[str]) -> None:
    near = reader.nearest(name, sorted(stored))
    there = f"credentials on the server: {listed(sorted(stored)) or 'none'}"
    reader.value(path, "DSL416", f"there is no credential {short(name)} on the server, so {so}",
                 f"did you mean {near}? {there}" if near else f"noetlctl credential {name[:60]}=JSON; {there}")


def _declared(plan: Plan) -> dict[str, int]:
    """Of the keychain, with its place in it."""
    stored = {str(entry.get("credential") or entry["name"]): index for index, entry in enumerate(plan.keychain)}
    return {name: index for name, index in stored.items() if not is_template(name)}


def _names(auth: Any) -> Iterator[str]:
    """One name, or several by alias."""
    if isinstance(auth, str) and auth and not is_template(auth):
        yield auth
    elif isinstance(auth, Mapping):
        for each in auth.values():
            if isinstance(each, Mapping):
                yield from _names(each.get("credential"))

"""The keys of a task as its tool gets them: templates evaluated, SQL with its parameters, programs of a shell
with their variables, and the names of credentials apart, so that what they stand for never mixes with the rest."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.model.texts import plain
from shared.dsl.model.tool_spec import KeySpec
from shared.dsl.templates.evaluate import evaluate, render_shell, render_sql


class Rendered:
    """`config` are the keys, `credentials` what names a credential in them, by its path (`target.auth`)."""

    def __init__(self, config: Mapping[str, Any], keys: Mapping[str, KeySpec], names: Mapping[str, Any]) -> None:
        self._names = names
        self.credentials: dict[str, Any] = {}
        self.config = self._mapping(config, keys, "")

    def _mapping(self, config: Mapping[str, Any], keys: Mapping[str, KeySpec], prefix: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in config.items():
            spec = keys.get(key)
            if spec is not None and spec.credential:
                name = self.credentials[prefix + key] = _named(evaluate(value, self._names))
                if spec.named:
                    found[key] = name
            elif spec is not None and spec.fields and isinstance(value, dict):
                found[key] = self._mapping(value, spec.fields, f"{prefix}{key}.")
            else:
                found[key] = self._value(value, spec)
        return found

    def _value(self, value: Any, spec: KeySpec | None) -> Any:
        if spec is not None and not spec.template:
            return plain(value)
        if spec is not None and spec.sql:
            if isinstance(value, str):
                return render_sql(value, self._names)
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                return [render_sql(item, self._names) for item in value]
        if spec is not None and spec.shell:
            return render_shell(value, self._names)
        return evaluate(value, self._names)


def _named(auth: Any) -> Any:
    """`{source: credential, key: name}` names a credential as the name alone does."""
    if isinstance(auth, dict) and set(auth) <= {"source", "type", "tool", "key", "credential"}:
        return auth.get("key") or auth.get("credential") or auth
    return auth

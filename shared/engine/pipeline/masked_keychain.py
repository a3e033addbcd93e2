"""The keychain where nobody may read it: every field is a marker that names it."""

from collections.abc import Iterator, Mapping
from typing import Any

from shared.dsl.model.plan import Plan

WHOLE = "*"  # the one key a marked credential is seen to have


class Marked(Mapping[str, str]):
    """A credential of which every field is `<keychain.name.field>`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, field: str) -> str:
        return f"<keychain.{self._name}.{field}>"

    def get(self, key: str, default: Any = None) -> Any:
        return self[key]

    def __contains__(self, key: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter((WHOLE,))

    def __len__(self) -> int:
        return 1


def keychain(plan: Plan) -> dict[str, Marked]:
    """`keychain` of a template, with the credentials that the playbook declares."""
    return {entry["name"]: Marked(entry["name"]) for entry in plan.keychain}

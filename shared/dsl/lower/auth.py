"""`auth` as people write it: a credential's name, a reference to one, or several references by alias."""

from typing import Any

from shared.dsl.lower.nodes import Env, build, changed, get, is_map, items, text_of
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.source.nodes import Node

# What a reference holds. Credentials are looked up in the keychain alone, so where else one could be kept
# (`source`, `provider`) decides nothing.
_REFERENCE = frozenset(("credential", "key", "type", "tool", "service", "source", "provider", "oauth_credential",
                        "scope"))
_ELSEWHERE = ("provider", "oauth_credential")
ALONE = "secret"  # the alias of a reference that has none
ADC = "adc"


def lower_auth(env: Env, task: Node, tool: ToolSpec) -> Node:
    """`auth: {}` (FS Appendix A) is none; one reference is the credential's name, or for a tool that takes
    several an alias."""
    auth = get(task, "auth")
    if auth is None or not is_map(auth):
        return task
    if not auth.value:
        return changed(task, {"auth": None})
    if _name(auth) is not None:
        return changed(task, {"auth": _alone(env, auth, tool)})
    references = {alias: node for alias, node in items(auth) if is_map(node) and _name(node) is not None}
    if len(references) != len(auth.value):
        return task  # reported by the reader, or an alias in its canonical form
    if tool.aliases:
        return changed(task, {"auth": changed(auth, {alias: _canonical(env, each)
                                                     for alias, each in references.items()})})
    if len(references) > 1:
        env.error(auth, "DSL204", f"a task of kind {tool.kind} takes one credential, not {len(references)}",
                  "write auth: <credential name>")
    (first, *_) = references.values()
    return changed(task, {"auth": _alone(env, first, tool)})


def _name(reference: Node) -> Node | None:
    """What names the credential, if this is a reference."""
    if not set(reference.value) <= _REFERENCE:
        return None
    name = get(reference, "credential") or get(reference, "key")
    if name is None and text_of(get(reference, "source")) == ADC:
        return get(reference, "source")
    return name if name is None or not is_map(name) else None


def _alone(env: Env, reference: Node, tool: ToolSpec) -> Node | None:
    if not tool.aliases:
        _tell(env, reference)
        return _name(reference)
    if set(reference.value) <= {"credential", "key", "source"}:
        return _name(reference)
    return build(reference.position, {ALONE: _canonical(env, reference)})


def _canonical(env: Env, reference: Node) -> Node:
    """`{credential, type, scope}`."""
    name, kind = _name(reference), get(reference, "type") or get(reference, "tool")
    assert name is not None
    if set(reference.value) <= {"credential", "type", "scope"}:
        return reference
    _tell(env, reference)
    found: dict[str, Any] = {"credential": name}
    if kind is not None:
        found["type"] = kind
    scope = get(reference, "scope")
    if scope is not None:
        found["scope"] = scope
    return build(reference.position, found)


def _tell(env: Env, reference: Node) -> None:
    told = [key for key in _ELSEWHERE if key in reference.value]
    if text_of(get(reference, "source")) == ADC and get(reference, "key") is None:
        env.warn(reference, "DSL903", "the cloud's default credentials are not looked for: the keychain's "
                 f"credential {ADC!r} is used", "store one, and write auth: <credential name>")
    elif told:
        env.warn(reference, "DSL903", f"{' and '.join(told)} of auth change nothing: the keychain alone is asked, "
                 "for the credential of that key", "store it there, and write auth: <credential name>")

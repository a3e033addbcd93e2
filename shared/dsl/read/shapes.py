"""One shape for what may be written in several: tasks (V10 §7, and the labelled form of DSL2 and
PIPE) and policy rules. Paths keep pointing at what the author wrote."""

from typing import Any

from msgspec import Struct

from shared.dsl.read.reader import NAME_FIX, Reader, is_name, kind_of, named, short
from shared.dsl.source.nodes import Path

_TASK = "write - name: …, kind: … and the tool's own keys"
_RULE = 'write - when: "{{ … }}" with then: {…}, or - else: {then: {…}}'


class TaskSource(Struct, frozen=True):
    """`body` is the task's mapping at `path`; `name_path` is where its name was written."""

    name: str
    body: dict[str, Any]
    path: Path
    name_path: Path


class RuleSource(Struct, frozen=True):
    """`fallback` is `else`; then there is no `when`."""

    path: Path
    then: dict[str, Any]
    then_path: Path
    fallback: bool = False
    when: Any = None


def tasks(reader: Reader, tool: Any, path: Path, step: str) -> list[TaskSource]:
    """The step's tasks, each with a name."""
    if isinstance(tool, dict):
        return [_single(reader, tool, path, step)]
    if not isinstance(tool, list):
        reader.value(path, "DSL203", f"tool must be a mapping or a list, not {kind_of(tool)}", _TASK)
        return []
    if not tool:
        reader.value(path, "DSL204", "tool is an empty list", _TASK + ", or leave tool out")
    sources = []
    for index, item in enumerate(tool):
        if isinstance(item, dict):
            sources.append(_item(reader, item, (*path, index), index))
        else:
            reader.value((*path, index), "DSL203", f"a task must be a mapping, not {kind_of(item)}", _TASK)
    return sources


def _single(reader: Reader, tool: dict[str, Any], path: Path, step: str) -> TaskSource:
    if "name" in tool:
        return _named(reader, tool, path)
    return TaskSource(f"{step}_task", tool, path, path)


def _item(reader: Reader, item: dict[str, Any], path: Path, index: int) -> TaskSource:
    if "name" in item:
        return _named(reader, item, path)
    if "kind" not in item and len(item) == 1:
        ((label, body),) = item.items()
        if isinstance(body, dict):
            return _labelled(reader, label, body, (*path, label))
    return TaskSource(f"task_{index}", item, path, path)


def _named(reader: Reader, body: dict[str, Any], path: Path) -> TaskSource:
    at = (*path, "name")
    return TaskSource(reader.name(body["name"], at, "a task's name"), body, path, at)


def _labelled(reader: Reader, label: str, body: dict[str, Any], path: Path) -> TaskSource:
    if body.get("name", label) != label:
        reader.value((*path, "name"), "DSL401",
                     f"the task is labelled {short(label)} and named {short(body['name'])}",
                     "keep the label or the name")
    if not is_name(label):
        reader.key(path, "DSL205", f"a task's label {short(label)} is not allowed", NAME_FIX)
    return TaskSource(label, body, path, path)


def rules(reader: Reader, owner: dict[str, Any], path: Path) -> list[RuleSource]:
    """The rules under `owner['rules']`: at least one, and `else` last (PIPE: `else` is the fallback)."""
    if not reader.required(owner, "rules", path, named(path), f"add rules: with at least one rule: {_RULE}"):
        return []
    at = (*path, "rules")
    listed = reader.listing(owner["rules"], at, _RULE)
    if isinstance(owner["rules"], list) and not listed:
        reader.value(at, "DSL204", f"{named(at)} is empty", _RULE)
    found = [_rule(reader, item, (*at, index)) for index, item in enumerate(listed)]
    kept = [rule for rule in found if rule is not None]
    for rule in kept[:-1]:
        if rule.fallback:
            reader.value(rule.path, "DSL501", "rules after else are never reached", "move else to the end")
    return kept


def _rule(reader: Reader, item: Any, path: Path) -> RuleSource | None:
    if not isinstance(item, dict):
        reader.value(path, "DSL501", f"a rule must be a mapping, not {kind_of(item)}", _RULE)
        return None
    if "expr" in item:
        reader.key((*path, "expr"), "DSL303", "expr is not a key of a rule", "rename expr to when")
        item = {"when": item["expr"], **{key: item[key] for key in item if key != "expr"}}
    elif ("else" in item) == ("when" in item):
        which = "both when and else" if "else" in item else "neither when nor else"
        reader.value(path, "DSL501", f"the rule has {which}", _RULE)
        return None
    return _fallback(reader, item, path) if "else" in item else _guarded(reader, item, path)


def _guarded(reader: Reader, item: dict[str, Any], path: Path) -> RuleSource | None:
    reader.keys(item, path, ("when", "then"), {}, "a rule")
    return _then(reader, item, path, path, item["when"])


def _fallback(reader: Reader, item: dict[str, Any], path: Path) -> RuleSource | None:
    inner = item["else"]
    if inner is None:  # `- else:` beside `then:`
        reader.keys(item, path, ("else", "then"), {}, "a rule")
        return _then(reader, item, path, path, None, fallback=True)
    reader.keys(item, path, ("else",), {}, "a rule whose else is a mapping")
    at = (*path, "else")
    if not isinstance(inner, dict) or "then" not in inner:
        reader.key(at, "DSL501", "else has no then", "write else: {then: {…}}")
        return None
    reader.keys(inner, at, ("then",), {}, "else")
    return _then(reader, inner, at, path, None, fallback=True)


def _then(reader: Reader, owner: dict[str, Any], at: Path, path: Path, when: Any, *,
          fallback: bool = False) -> RuleSource | None:
    if "then" not in owner:
        reader.value(path, "DSL501", "the rule has no then", _RULE)
        return None
    then_path = (*at, "then")
    if not isinstance(owner["then"], dict):
        reader.value(then_path, "DSL501", f"then must be a mapping, not {kind_of(owner['then'])}", _RULE)
        return None
    return RuleSource(path, owner["then"], then_path, fallback, when)

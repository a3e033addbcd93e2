"""The documentation of a path such as `step.spec.policy.admit`, of a tool kind, or of a diagnostic code."""

from collections.abc import Iterable, Mapping

from shared.dsl.authoring.language import SHAPES as PLAYBOOK_SHAPES
from shared.dsl.authoring.language import Key, Shape
from shared.dsl.authoring.test_language import TEST_SHAPES
from shared.dsl.model.diagnostic_codes import CODES
from shared.dsl.model.tool_spec import KeySpec, ToolSpec
from shared.dsl.read.reader import nearest
from shared.dsl.read.spec_layers import all_knobs
from shared.errors import NoetlError

SHAPES = {**PLAYBOOK_SHAPES, **TEST_SHAPES}
_STARTS = {"workflow": "step", "tool": "task", "tasks": "task", "arcs": "arc", "rules": "rule"}


class NoSuchKey(NoetlError):
    """There is no such path; the message says what is near."""


def explain(path: str, kinds: Mapping[str, ToolSpec]) -> str:
    """Paths begin at the root (`metadata.name`) or at a part: step, task, loop, next, arc, rule, then, test."""
    if path in CODES:
        return f"{path}: {CODES[path].title}\n\n{CODES[path].doc}"
    parts = [part for part in path.replace("[]", "").strip(".").split(".") if part]
    if not parts:
        return _listing("A playbook has these keys.", SHAPES["playbook"], kinds)
    first, shape = parts[0], _shape_of(parts[0])
    if shape is None:
        if first in kinds:
            return _kind(kinds[first], parts[1:], path)
        raise _unknown(first, [*SHAPES["playbook"], *SHAPES, *kinds, *CODES])
    found: Key | None = SHAPES["playbook"].get(first)
    for position, part in enumerate(parts[1:], 1):
        if shape == "task" and part in kinds:
            return _kind(kinds[part], parts[position + 1:], path)
        if shape is None or part not in _known(shape, kinds):
            raise _unknown(path, _known(shape, kinds) if shape else ())
        found = _key(shape, part, kinds)
        shape = below(found)
    return _text(path, found, shape, kinds)


def topics(begun: str, kinds: Mapping[str, ToolSpec]) -> list[str]:
    """Everything `explain` knows that goes on where `begun` ends, one key further."""
    head, dot, _ = begun.rpartition(".")
    if not dot:
        return list(dict.fromkeys([*_known("playbook", kinds), *SHAPES, *_STARTS, *kinds, *CODES]))
    first, *parts = head.split(".")
    shape = _shape_of(first)
    if shape is None and first in kinds and not parts:
        return [f"{head}.{name}" for name in {**kinds[first].keys, **kinds[first].all_knobs()}]
    for part in parts:
        shape = below(_key(shape, part, kinds)) if shape is not None and part in _known(shape, kinds) else None
    return [f"{head}.{name}" for name in _known(shape, kinds)] if shape is not None else []


def _shape_of(name: str) -> str | None:
    if name in _STARTS or name in SHAPES:
        return _STARTS.get(name, name)
    key = SHAPES["playbook"].get(name)
    return None if key is None else below(key) or name


def below(key: Key) -> str | None:
    """The shape a key's value has."""
    word = key.type.strip("[]")
    if word == "@tool":
        return "task"
    return word[1:] if word.startswith("@") else None


def _known(shape: str, kinds: Mapping[str, ToolSpec]) -> list[str]:
    keys = [name for name in SHAPES.get(shape, {}) if name not in ("knobs", "*")]
    return keys + [name for name in all_knobs(kinds) if "knobs" in SHAPES.get(shape, {}) and name not in keys]


def _key(shape: str, name: str, kinds: Mapping[str, ToolSpec]) -> Key:
    return SHAPES[shape].get(name) or Key("any", all_knobs(kinds)[name].doc)


def _unknown(path: str, known: Iterable[str]) -> NoSuchKey:
    known = list(known)
    near = nearest(path.rsplit(".", 1)[-1], known)
    hint = f"did you mean {near}?" if near else f"known here: {', '.join(known) or 'none'}"
    return NoSuchKey(f"there is no {path}: {hint}")


def _text(path: str, key: Key | None, shape: str | None, kinds: Mapping[str, ToolSpec]) -> str:
    lines = [path, ""]
    if key is not None:
        lines.append(key.doc)
        lines.extend(_facts(key))
    if shape in SHAPES:
        lines.append("" if key is None else "\nKeys:")
        lines.append(_listing("", SHAPES[shape], kinds))
    return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip()


def _facts(key: Key) -> list[str]:
    facts = []
    if key.required:
        facts.append("Required.")
    if key.choices:
        facts.append(f"One of: {', '.join(str(each) for each in key.choices)}.")
    if key.most is not None:
        facts.append(f"From {key.least} to {key.most}.")
    if key.default is not None:
        facts.append(f"Unless given: {key.default}.")
    if key.formal:
        facts.append("Formal dialect: rewritten by the compiler, refused by --strict.")
    if key.also:
        facts.append(f"Also rewritten: {', '.join(key.also)}.")
    return facts


def _listing(head: str, shape: Shape, kinds: Mapping[str, ToolSpec]) -> str:
    rows = {name: key.doc for name, key in shape.items() if name not in ("knobs", "*") and not key.formal}
    if "knobs" in shape:
        rows |= {name: knob.doc for name, knob in all_knobs(kinds).items() if name not in rows}
    return _table(head, rows)


def _kind(spec: ToolSpec, rest: list[str], path: str) -> str:
    keys: Mapping[str, KeySpec] = {**spec.keys, **spec.all_knobs()}
    if not rest:
        head = f"kind: {spec.kind}\n\n{spec.doc}\n\nKeys:\n"
        return head + _table("", {name: key.doc for name, key in spec.keys.items()}) + "\n\nUnder spec:\n" + _table(
            "", {name: key.doc for name, key in spec.all_knobs().items()})
    *outer, name = rest
    for part in outer if outer != ["spec"] else []:
        keys = keys[part].fields if part in keys else {}
    if name not in keys:
        raise _unknown(path, keys)
    key = keys[name]
    facts = (["Required."] if key.required else []) + ([] if key.template else ["Taken as written, never rendered."])
    facts += ["Each {{ }} in it becomes a bound parameter."] if key.sql else []
    facts += ["Each {{ }} in it becomes a variable of the shell, never text of the program."] if key.shell else []
    facts += ["Names a credential."] if key.credential else []
    facts += [f"One of: {', '.join(key.choices)}."] if key.choices else []
    facts += ["\n" + _table("", {each: inner.doc for each, inner in key.fields.items()})] if key.fields else []
    return "\n".join([".".join([spec.kind, *outer, name]), "", key.doc, *facts])


def _table(head: str, rows: Mapping[str, str]) -> str:
    width = max((len(name) for name in rows), default=0)
    body = "\n".join(f"  {name:<{width}}  {doc}" for name, doc in rows.items())
    return f"{head}\n\n{body}" if head else body

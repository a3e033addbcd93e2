"""The root of a playbook as FX and today's files write it: header, executor, inputs, workbook."""

from shared.dsl.lower.name_meanings import EVERYWHERE
from shared.dsl.lower.names import renamed_node
from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, items, listed, renamed, text_of, without
from shared.dsl.source.nodes import Node

RUNTIME = "noetl-runtime/1"
PROFILES = ("auto", "distributed", "local")
FEATURES = ("case", "keychain", "loop", "result_storage", "retry", "sink", "sub_playbooks", "templates", "vars")
_EXECUTOR_SPEC = ("policy", "pool", "timeout", "entry_step")


def lower_root(env: Env, root: Node) -> Node:
    """Root `name` and `path` (FX §2.1) to metadata; the workbook is taken apart and leaves."""
    put = _header(env, root)
    if (executor := get(root, "executor")) is not None and is_map(executor):
        put["executor"] = _executor(env, executor)
    if (keychain := get(root, "keychain")) is not None and is_list(keychain):
        put["keychain"] = _keychain(keychain)
    if get(root, "tracing") is not None:
        env.warn(root.value["tracing"].key, "DSL903", "tracing changes nothing",
                 "remove it: every event is in the log with its trace id")
        put["tracing"] = None
    workbook = get(root, "workbook")
    if workbook is not None and _read_workbook(env, workbook):
        put["workbook"] = None
    if (workload := _workload(root)) is not None:
        put |= {"workload": renamed_node(workload, EVERYWHERE), **_moved_spec(root)}
    return changed(root, put)


def _header(env: Env, root: Node) -> dict[str, Node | None]:
    metadata = get(root, "metadata")
    moved = {key: value for key in ("name", "path") if (value := get(root, key)) is not None}
    if not moved or not (metadata is None or is_map(metadata)):
        return {}
    base = metadata if metadata is not None else build(next(iter(moved.values())).position, {})
    for key in moved:
        if get(base, key) is not None:
            env.error(root.value[key].key, "DSL401", f"{key} is given at the root and in metadata",
                      f"keep metadata.{key}")
    return {"metadata": changed(base, {**moved, **dict(items(base))}), **dict.fromkeys(moved)}


# -- inputs --------------------------------------------------------------------------------------


def _is_inputs(spec: Node | None) -> bool:
    """A root `spec` that holds data; one with an executor's keys is a mistake, which the reader tells."""
    return is_map(spec) and spec is not None and not set(spec.value) & set(_EXECUTOR_SPEC)


def _workload(root: Node) -> Node | None:
    """The workload, with a root `spec` of data as its key `spec`, where templates look for it."""
    workload, spec = get(root, "workload"), get(root, "spec")
    if spec is None or not _is_inputs(spec):
        return workload
    base = workload if workload is not None else build(spec.position, {})
    return changed(base, {"spec": spec}) if is_map(base) and get(base, "spec") is None else workload


def _moved_spec(root: Node) -> dict[str, Node | None]:
    moves = _is_inputs(get(root, "spec")) and get(root, "workload", "spec") is None
    return {"spec": None} if moves else {}


def _keychain(keychain: Node) -> Node:
    new = [renamed(each, "type", "kind") if is_map(each) else each for each in keychain.value]
    same = all(a is b for a, b in zip(new, keychain.value, strict=True))
    return keychain if same else Node(keychain.position, new)


# -- executor ------------------------------------------------------------------------------------


def _executor(env: Env, executor: Node) -> Node:
    _requires(env, get(executor, "requires"))
    version, profile = get(executor, "version"), get(executor, "profile")
    if version is not None and version.value != RUNTIME:
        env.error(version, "DSL204", f"the runtime is {RUNTIME}", f"write version: {RUNTIME}, or leave it out")
    put: dict[str, Node | None] = {key: None for key in ("version", "requires") if key in executor.value}
    if profile is not None:
        if profile.value not in PROFILES:
            env.error(profile, "DSL204", f"executor.profile cannot be {str(profile.value)[:60]!r}",
                      f"one of: {', '.join(PROFILES)}")
        put["profile"] = None
        if profile.value in PROFILES[1:] and get(executor, "kind") is None:
            put["kind"] = profile
    spec = get(executor, "spec")
    if spec is not None and is_map(spec):
        put["spec"] = _executor_spec(env, spec)
    return changed(executor, put)


def _requires(env: Env, requires: Node | None) -> None:
    """What the playbook asks of the runtime is checked, and then it is no more needed."""
    for key, value in items(requires):
        known = {"tools": tuple(sorted(env.kinds)), "features": FEATURES}.get(key)
        if known is None or not is_list(value):
            env.error(value, "DSL201" if known is None else "DSL203", "requires has lists of tools and features",
                      "write requires: {tools: [http], features: [result_storage]}")
            continue
        for each in listed(value):
            if each.value not in known:
                code = "DSL405" if key == "tools" else "DSL204"
                env.error(each, code, f"the runtime has no {key.removesuffix('s')} {str(each.value)[:60]!r}",
                          f"one of: {', '.join(known)}")


def _executor_spec(env: Env, spec: Node) -> Node:
    """`no_next_is_error` is about every router; `defaults.timeout_s` bounds a run of any step."""
    strict = get(spec, "no_next_is_error")
    if strict is not None:
        if not isinstance(strict.value, bool):
            env.error(strict, "DSL203", "no_next_is_error is true or false", "write no_next_is_error: true")
        env.must_match = strict.value is True
        spec = without(spec, ("no_next_is_error",))
    policy, defaults = get(spec, "policy"), get(spec, "policy", "defaults")
    limit = get(defaults, "timeout_s")
    if limit is None or policy is None or defaults is None:
        return spec
    timeouts = get(defaults, "timeouts") or build(limit.position, {})
    if not is_map(timeouts) or get(timeouts, "step_s") is not None:
        return spec
    moved = changed(defaults, {"timeout_s": None, "timeouts": changed(timeouts, {"step_s": limit})})
    return changed(spec, {"policy": changed(policy, {"defaults": moved})})


# -- workbook ------------------------------------------------------------------------------------


def _read_workbook(env: Env, workbook: Node) -> bool:
    """A list of `{name, tool}` (FS §5), or a mapping of named tasks (FX §2.1, DSL2)."""
    tasks = get(workbook, "tasks")
    named = list(items(tasks if tasks is not None and len(workbook.value) == 1 else workbook))
    if is_list(workbook) or is_list(tasks):
        named = [(text_of(get(each, "name")), each) for each in listed(tasks if is_list(tasks) else workbook)]
    if not named:
        return False
    for name, each in named:
        tool = get(each, "tool")
        body = tool if is_map(tool) else each
        if not name or not is_map(body) or get(body, "kind") is None:
            env.error(each, "DSL202", "a workbook task needs a name and a tool with its kind",
                      "write - name: …, tool: {kind: …}")
            continue
        assert body is not None
        if (sink := get(each, "sink")) is not None and tool is not None:
            body = changed(body, {"sink": sink})
        if name in env.workbook:
            env.error(each, "DSL401", f"the workbook has {name!r} already", "use another name")
        env.workbook[name] = changed(body, {"name": None}) if "name" in body.value else body
    return True

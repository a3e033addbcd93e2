"""A job of Kubernetes as data: the Job, the Secret with its variables and the ConfigMap with its program. Values
of the playbook reach the container as variables of the Secret, so that no job shows them."""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from shared.tools.base.contract import Call, KeySpec
from shared.tools.base.guard import BadCall, TooLarge, mapping, time_limit

KEYS: Mapping[str, KeySpec] = {
    "image": KeySpec("The container's image.", required=True),
    "namespace": KeySpec("Instead of that of the credential or of the worker's own pod."),
    "serviceAccountName": KeySpec("Account of the pod; without it the pod has no token of any."),
    "backoffLimit": KeySpec("How often Kubernetes starts a failed pod again, 0 unless given."),
    "activeDeadlineSeconds": KeySpec("When Kubernetes ends the job, 60 s after the time of the call unless given."),
    "ttlSecondsAfterFinished": KeySpec("When Kubernetes deletes the finished job, 3600 unless given; at least 60, so "
                                       "that its output can be read."),
    "cleanup": KeySpec("true: the job is deleted as soon as its output is read."),
    "resources": KeySpec("Of the container: {requests: {cpu, memory}, limits: {…}}."),
    "imagePullPolicy": KeySpec("Kubernetes' own unless given.", choices=("Always", "IfNotPresent", "Never")),
    "imagePullSecrets": KeySpec("List of names of Secrets."),
    "nodeSelector": KeySpec("Mapping of labels of nodes."),
    "tolerations": KeySpec("List of tolerations, as Kubernetes has them."),
    "workingDir": KeySpec("Folder to run in, the image's unless given."),
    "securityContext": KeySpec("Of the container, as Kubernetes has it."),
}
CALL, WATCHER = "noetl.io/call", "noetl.io/watcher"
CONTAINER = "main"
MOUNT = "/noetl"        # where the program is
ARGS = "NOETL_ARGS"     # the task's args as JSON
TTL_S, MIN_TTL_S = 3600, 60
DEADLINE_GRACE_S = 60   # a worker that is there ends the job itself
VARIABLE_LIMIT = 120_000           # bytes of one: Linux allows 128 KiB
VARIABLES_LIMIT = 512 * 1024       # of all
PROGRAM_LIMIT = 1024 * 1024        # what a ConfigMap holds
MAX_WORDS = 256                    # of command and args
_VARIABLE = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]{0,252}\Z")


class Work(Struct, frozen=True):
    """What runs in the container. `files` are mounted at MOUNT, by name."""

    image: str
    command: list[str]
    args: list[str]
    env: Mapping[str, Any]
    files: Mapping[str, str] = {}


class Manifests(Struct, frozen=True):
    """`parts` are what the job needs beside itself, by the API's name for their kind."""

    name: str
    key: str
    job: dict[str, Any]
    parts: dict[str, dict[str, Any]]
    cleanup: bool


def manifests(call: Call, settings: Mapping[str, Any], work: Work) -> Manifests:
    name = job_name(call.idempotency_key)
    labels = _labels(call.idempotency_key)
    env = variables(work.env)
    container = {
        "name": CONTAINER, "image": work.image, **_given(settings, "imagePullPolicy", "workingDir", "securityContext"),
        **({"command": work.command} if work.command else {}), **({"args": work.args} if work.args else {}),
        **({"env": [_variable(each, name) for each in env]} if env else {}),
        **({"resources": _resources(settings["resources"])} if settings.get("resources") is not None else {}),
    }
    pod = {"restartPolicy": "Never", "automountServiceAccountToken": bool(settings.get("serviceAccountName")),
           **_given(settings, "serviceAccountName", "nodeSelector", "tolerations"),
           **_pull_secrets(settings), "containers": [container]}
    if work.files:
        container["volumeMounts"] = [{"name": "program", "mountPath": MOUNT, "readOnly": True}]
        pod["volumes"] = [{"name": "program", "configMap": {"name": name, "defaultMode": 0o555}}]
    parts = {**({"secrets": _secret(name, labels, env)} if env else {}),
             **({"configmaps": _config_map(name, labels, work.files)} if work.files else {})}
    spec = {
        "backoffLimit": whole(settings, "backoffLimit", 0, 0),
        "activeDeadlineSeconds": whole(settings, "activeDeadlineSeconds",
                                       math.ceil(time_limit(call)) + DEADLINE_GRACE_S, 1),
        "ttlSecondsAfterFinished": max(whole(settings, "ttlSecondsAfterFinished", TTL_S, 0), MIN_TTL_S),
        **({"suspend": True} if parts else {}),  # until its parts are there
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    meta = {"name": name, "labels": labels, "annotations": {CALL: call.idempotency_key}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
    return Manifests(name, call.idempotency_key, job, parts, _flag(settings, "cleanup"))


def job_name(key: str) -> str:
    """The same for the same call, so that a call that is repeated finds its job."""
    parts = key.split("/")
    task = re.sub("[^a-z0-9]+", "-", parts[-2].lower() if len(parts) > 1 else "").strip("-")[:30].rstrip("-")
    return f"noetl-{task or 'task'}-{hashlib.sha256(key.encode()).hexdigest()[:20]}"


def owned(part: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """The part as one that Kubernetes deletes with its job."""
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {**part, "metadata": {**part["metadata"], "ownerReferences": [owner]}}


def variables(given: Mapping[str, Any]) -> dict[str, str]:
    from shared.dsl.templates.shell import as_text

    found: dict[str, str] = {}
    for name, value in given.items():
        if not _VARIABLE.match(str(name)):
            raise BadCall(f"a variable cannot be called {str(name)[:60]!r}: letters, digits and _")
        found[str(name)] = text = as_text(value)
        if "\0" in text:
            raise BadCall(f"variable {name}: a NUL character cannot be in it")
        if len(text.encode("utf-8", "replace")) > VARIABLE_LIMIT:
            raise TooLarge(f"variable {name} is over {VARIABLE_LIMIT} bytes: hand it over in a file or a database")
    if sum(len(text.encode("utf-8", "replace")) for text in found.values()) > VARIABLES_LIMIT:
        raise TooLarge(f"the variables of the container are over {VARIABLES_LIMIT} bytes")
    return found


def image(settings: Mapping[str, Any], owner: str) -> str:
    found = settings.get("image")
    if not isinstance(found, str) or not found.strip():
        raise BadCall(f"{owner}.image is needed")
    return found


def words(given: Any, name: str) -> list[str]:
    """A command, or its arguments: texts and numbers."""
    from shared.dsl.templates.shell import as_text

    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(each, (str, int, float)) for each in given):
        raise BadCall(f"{name} must be a list of texts")
    if len(given) > MAX_WORDS:
        raise TooLarge(f"{name} has {len(given)} words, over the limit of {MAX_WORDS}")
    return [as_text(each) for each in given]


def whole(settings: Mapping[str, Any], name: str, otherwise: int, least: int) -> int:
    value = settings.get(name)
    if value is None:
        return otherwise
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if type(value) is not int or not least <= value < 2**31:
        raise BadCall(f"{name} must be a whole number, at least {least}")
    return value


def veiled(call: Call, given: list[str], kind: str) -> tuple[list[str], dict[str, str]]:
    """The words, and variables for those of a task that reads the keychain. Kubernetes puts $(NAME) in, once:
    a word that names variables itself stays as it is, unless a keychain value stands in it."""
    if not call.secrets:
        return given, {}
    found, env = list[str](), dict[str, str]()
    for number, word in enumerate(given):
        if "$(" in word and not any(text in word for text in _texts(call.secrets)):
            found.append(word)
            continue
        env[f"NOETL_{kind}_{number}"] = word
        found.append(f"$(NOETL_{kind}_{number})")
    return found, env


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str() if value:
            yield value
        case Mapping():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)


def _labels(key: str) -> dict[str, str]:
    parts = key.split("/")
    found = {"noetl.io/execution": parts[0], "noetl.io/step": parts[1].partition(":")[0] if len(parts) > 1 else ""}
    plain = {name: re.sub("[^A-Za-z0-9_.-]", "_", value)[:63].strip("_.-") for name, value in found.items()}
    return {"app.kubernetes.io/managed-by": "noetl", **{name: value for name, value in plain.items() if value}}


def _variable(name: str, secret: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}}


def _secret(name: str, labels: dict[str, str], env: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels},
            "type": "Opaque", "immutable": True, "stringData": dict(env)}


def _config_map(name: str, labels: dict[str, str], files: Mapping[str, str]) -> dict[str, Any]:
    if sum(len(text.encode("utf-8", "replace")) for text in files.values()) > PROGRAM_LIMIT:
        raise TooLarge(f"the program is over {PROGRAM_LIMIT} bytes: build it into the image")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels},
            "immutable": True, "data": dict(files)}


def _given(settings: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: settings[name] for name in names if settings.get(name) is not None}


def _pull_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    names = words(settings.get("imagePullSecrets"), "imagePullSecrets")
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}


def _resources(given: Any) -> dict[str, Any]:
    """Quantities are texts for Kubernetes, and numbers for those who write `cpu: 1`."""
    if not isinstance(given, Mapping) or not set(given) <= {"requests", "limits"}:
        raise BadCall("resources must be {requests: {…}, limits: {…}}")
    return {part: {str(name): str(value) for name, value in mapping(given, part).items()} for part in given}


def _flag(settings: Mapping[str, Any], name: str) -> bool:
    value = settings.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadCall(f"{name} must be true or false")
    return bool(value)

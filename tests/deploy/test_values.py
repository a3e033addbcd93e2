"""Values: every key is documented, every other one is refused by its name, and what contradicts itself says so."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from shared.tools.registry import specs
from tests.deploy.helm import CHART, HELMS, refusal, run

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
Place = tuple[str, ...]


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    return SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def closed(schema: dict[str, Any], place: Place = ()) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Every object of the schema that lists its keys."""
    found = resolved(schema)
    if "properties" in found:
        yield place, found
        for name, part in found["properties"].items():
            yield from closed(part, (*place, name))


OBJECTS = dict(closed(SCHEMA))


def at(place: Place) -> Any:
    value: Any = VALUES
    for step in place:
        value = value[step]
    return value


def within(place: Place, value: Any) -> dict[str, Any]:
    made = value
    for step in reversed(place):
        made = {step: made}
    return dict(made)


def errors(values: dict[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(values)]


@pytest.mark.parametrize("place", OBJECTS, ids=".".join)
def test_what_may_be_said_stands_in_the_defaults(place: Place) -> None:
    wanted = set(OBJECTS[place]["properties"]) - {"global", "claims"}  # Helm's own, and a rare one of Kubernetes
    assert set(at(place)) == wanted


@pytest.mark.parametrize("place", OBJECTS, ids=".".join)
def test_an_unknown_key_is_refused_by_its_name(place: Place) -> None:
    found = errors(within((*place, "misspelt"), 1))
    assert any("misspelt" in message for message in found)


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize(("given", "unknown"), [
    ("routr.replicas=3", "routr"), ("router.replica=3", "replica"), ("nats.auth.modes=jwt", "modes"),
    ("workerPools.default.replica=3", "replica"), ("networkPolicy.enable=false", "enable"),
])
def test_helm_names_it_too(helm: str, given: str, unknown: str) -> None:
    found = refusal(given, helm=helm)
    assert f"Additional property {unknown} " in found or f"additional properties '{unknown}'" in found


@pytest.mark.parametrize(("given", "said"), [
    ("nats.url=nats://b:4222", "which broker is it"),
    ("nats.bundled.enabled=false", "nats.url is needed"),
    ("nats.replicas=3", "one node"),
    ("nats.tls.caSecret=ca", "the bundled one has no certificate"),
    ("nats.auth.existingSecrets.admin=a", "has no Secret of|server.conf from nats.auth.existingSecret"),
    ("workerPools.default.autoscaling.min=20", "autoscaling.min is over autoscaling.max"),
    ("workerPools.a-pool-with-a-name-that-is-far-too-long-for-a-label-of-it.slots=1", "63 characters|maxLength|50"),
])
def test_what_cannot_be_is_said(given: str, said: str) -> None:
    found = refusal(given)
    assert any(each in found for each in said.split("|")), found


def test_two_who_say_how_many_workers_there_are() -> None:
    found = refusal("workerPools.default.replicas=2", "workerPools.default.autoscaling.mode=keda")
    assert "leave one of them out" in found


@pytest.mark.parametrize("mode", ["native", "keda"])
def test_demand_is_told_by_the_pools_service(mode: str) -> None:
    assert "pools.enabled" in refusal("pools.enabled=false", f"workerPools.default.autoscaling.mode={mode}")


@pytest.mark.parametrize("values", [
    {"nats": {"url": "nats://admin:secret@broker:4222"}},
    {"router": {"extraEnv": {"NOETL_NATS_PASSWORD": "secret"}}},
    {"workerDefaults": {"extraEnv": {"NOETL_POSTGRES_DSN": "postgres://"}}},
    {"router": {"extraEnv": [{"name": "A", "value": "1"}]}},
    {"workerPools": {"Big_Pool": {}}},
    {"workerPools": {"2nd": {}}},
    {"nats": {"maxBytes": {"events": "1GiB"}}},
    {"retention": {"log": "30d"}},
    {"retention": {"results": "soon"}},
    {"nats": {"maxBytes": {"letters": "1GiB"}}},
    {"nats": {"bundled": {"storage": {"size": "0"}}}},
    {"router": {"podLabels": {"app.kubernetes.io/component": "nats"}}},
    {"workerDefaults": {"podLabels": {"noetl.io/pool": "other"}}},
    {"commonLabels": {"app.kubernetes.io/instance": "other"}},
    {"commonLabels": {"bad label!": "x"}},
    {"commonLabels": {"team": "with space"}},
    {"nameOverride": "a.b"},
    {"image": {"tag": "a b"}},
    {"image": {"pullSecrets": [""]}},
    {"workerDefaults": {"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}},
    {"workerDefaults": {"extraVolumeMounts": [{"name": "mine", "mountPath": "/tmp"}]}},
    {"router": {"resources": {"requests": {"cpu": -1}}}},
    {"router": {"resources": {"requests": {"memory": "abc"}}}},
    {"workerDefaults": {"drainSeconds": 0}},
    {"workerDefaults": {"provides": ["a.b"]}},
    {"workerDefaults": {"toolsDisabled": ["nosuch"]}},
    {"image": {"digest": "latest"}},
])
def test_values_that_are_refused(values: dict[str, Any]) -> None:
    assert errors(values)


@pytest.mark.parametrize(("setting", "said"), [
    ("router.extraEnv.NOETL_HEALTH_PORT=none", "extraEnv.NOETL_HEALTH_PORT of router"),
    ("workerDefaults.extraEnv.NOETL_POOL=other", "extraEnv.NOETL_POOL of worker"),
    ("workerDefaults.extraEnv.NOETL_DRAIN_S=long", "extraEnv.NOETL_DRAIN_S of worker"),
    ("scheduler.extraEnv.NOETL_NATS_URL=nats://user:secret@h", "extraEnv.NOETL_NATS_URL of scheduler"),
    ("nats.bundled.storage.maxFileStore=11GiB", "more than the volume of 10Gi"),
])
def test_what_other_values_say_is_not_said_against_them(setting: str, said: str) -> None:
    assert said in refusal(setting)


def test_labels_of_others_and_a_log_level_of_its_own_are_fine() -> None:
    labels = {"team": "data", "example.com/owner": "me"}
    assert errors({"commonLabels": labels, "router": {"extraEnv": {"NOETL_LOG_LEVEL": "debug"}}}) == []


def test_every_kind_of_tool_can_be_disabled() -> None:
    assert errors({"workerDefaults": {"toolsDisabled": sorted(specs())}}) == []


def test_the_defaults_are_values_of_the_schema() -> None:
    assert errors(VALUES) == []


def test_other_charts_may_hold_this_one(tmp_path: Any) -> None:
    """Helm hands `global` to every chart that another one depends on."""
    (tmp_path / "values.yaml").write_text("global: {region: eu}\n", encoding="utf-8")
    done = run("helm3", "lint", "--strict", str(CHART), "-f", str(tmp_path / "values.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr

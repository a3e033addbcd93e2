"""The Deployment of a pool, made of the chart's template. Pure.

`__POOL__` in any text of the template is the pool's name: a Secret of its own, for one. What the document says of the
workers goes into the environment of the first container, over what stands there. The number of Pods is left out: it is
said by the scale alone, so that applying never changes it."""

import math
from collections.abc import Mapping
from typing import Any

import yaml

from services.pools.kubernetes.kube_api import MANAGER, POOL_LABEL
from shared.dsl.documents.pools import Pool
from shared.errors import Corrupt

HAND_BACK_S = 15  # beyond the drain: a worker that is late hands back what it holds, and its lease is not over
POOL_WORD = "__POOL__"
MANAGED_BY = "app.kubernetes.io/managed-by"


def read(text: str) -> dict[str, Any]:
    """Raises Corrupt when the template is not a Deployment."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Corrupt(f"the template of workers is not YAML: {str(error).splitlines()[0]}") from None
    try:
        is_one = found["kind"] == "Deployment" and found["spec"]["template"]["spec"]["containers"][0]["name"]
    except (KeyError, TypeError, IndexError):
        is_one = False
    if not is_one:
        raise Corrupt("the template of workers is not a Deployment with a container")
    return dict(found)


def deployment(template: Mapping[str, Any], pool: Pool, name: str) -> dict[str, Any]:
    made: dict[str, Any] = _filled(template, pool.name)
    meta, labels = made.get("metadata") or {}, {POOL_LABEL: pool.name}
    made["apiVersion"], made["kind"] = "apps/v1", "Deployment"
    made["metadata"] = {
        "name": name, "labels": {**(meta.get("labels") or {}), **labels, MANAGED_BY: MANAGER},
        **({"annotations": meta["annotations"]} if meta.get("annotations") else {}),
    }
    made.pop("status", None)
    spec = made["spec"]
    spec.pop("replicas", None)
    selector = (spec.get("selector") or {}).get("matchLabels") or {}
    spec["selector"] = {"matchLabels": {**selector, **labels}}
    pod = spec["template"]
    pod["metadata"] = {**(pod.get("metadata") or {})}
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **selector, **labels}
    pod["spec"]["terminationGracePeriodSeconds"] = math.ceil(pool.drain_s) + HAND_BACK_S
    container = pod["spec"]["containers"][0]
    own = _environment(pool)
    kept = [each for each in container.get("env") or () if each.get("name") not in own]
    container["env"] = [*kept, *({"name": key, "value": value} for key, value in own.items())]
    return made


def _environment(pool: Pool) -> dict[str, str]:
    return {
        "NOETL_POOL": pool.name, "NOETL_SLOTS": str(pool.slots), "NOETL_PROVIDES": ",".join(pool.provides),
        "NOETL_TOOLS_DISABLED": ",".join(pool.tools_disabled), "NOETL_DRAIN_S": f"{pool.drain_s:g}",
    }


def _filled(value: Any, pool: str) -> Any:
    match value:
        case str():
            return value.replace(POOL_WORD, pool)
        case Mapping():
            return {key: _filled(each, pool) for key, each in value.items()}
        case list():
            return [_filled(each, pool) for each in value]
        case _:
            return value

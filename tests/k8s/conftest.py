"""A real cluster is not there unless `make test-k8s` has started one: without it nothing here is collected."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.k8s.cluster.api import Api
from tests.k8s.kubelet.node import Node

GIVEN = os.environ.get("NOETL_TEST_KUBE", "")
collect_ignore_glob = [] if GIVEN else ["test_*.py"]


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """It runs what the API server has; nothing may have been beyond it."""
    given = json.loads(Path(GIVEN).read_text())
    node = Node(Api(given["server"], given["ca"], given["admin_token"]), Path(given["folder"])).start()
    try:
        yield node
    finally:
        node.stop()
    assert node.troubles == []

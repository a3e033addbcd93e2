"""The playbooks of examples/, and their tests."""

from tests.support.paths import EXAMPLES

TESTS = sorted(EXAMPLES.rglob("*.test.yaml"))
PLAYBOOKS = [file for file in sorted(EXAMPLES.glob("*.yaml")) if file not in TESTS]
HELLO = str(EXAMPLES / "hello.yaml")

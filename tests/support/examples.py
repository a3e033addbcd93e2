"""The playbooks of examples/, and their tests."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples"
TESTS = sorted(FOLDER.glob("*.test.yaml"))
PLAYBOOKS = [file for file in sorted(FOLDER.glob("*.yaml")) if file not in TESTS]

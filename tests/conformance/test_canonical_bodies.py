"""The examples hold the canonical steps of V10 §12, DSL2 §13 and PIPE as the documents have them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import EXAMPLES

CANONICAL = Path(__file__).parent / "canonical"


def differences(document: Any, ours: Any, place: str = "") -> list[str]:
    """Where ours is not the document's; `...` in the document may be anything."""
    match document, ours:
        case dict(), dict():
            keys = [f"{place}: keys {list(ours)}, not {list(document)}"] if set(document) != set(ours) else []
            return keys + [d for key in document if key in ours
                           for d in differences(document[key], ours[key], f"{place}.{key}")]
        case list(), list() if len(document) == len(ours):
            return [d for i, item in enumerate(document) for d in differences(item, ours[i], f"{place}[{i}]")]
        case str(), str() if "..." in document:
            same = ours.startswith(document.split("...")[0])
        case str(), str() if place.endswith(".code"):
            same = ours.endswith(document)  # what the document calls without defining it comes before
        case _:
            same = document == ours
    return [] if same else [f"{place}: {ours!r}, not {document!r}"]


@pytest.mark.parametrize(
    ("document", "example"),
    [("v10", "v10_pagination"), ("dsl2", "dsl2_minimal"), ("pipe", "pipe_pipeline")],
)
def test_the_example_holds_the_step_of_the_document(document: str, example: str) -> None:
    (step,) = yaml.safe_load((CANONICAL / f"{document}.yaml").read_text())
    workflow = yaml.safe_load((EXAMPLES / f"{example}.yaml").read_text())["workflow"]
    ours = next(found for found in workflow if found["step"] == step["step"])
    assert differences(step, ours) == []


def test_a_change_of_the_step_would_be_seen() -> None:
    document = {"a": [{"do": "retry", "delay": 2.0}], "sql": "INSERT INTO x (...)", "code": "result = f(x)\n"}
    assert differences(document, {**document, "sql": "INSERT INTO x (y)"}) == []
    assert len(differences(document, {"a": [{"do": "fail", "delay": 2.0}], "sql": "INSERT INTO y", "more": 1})) == 3

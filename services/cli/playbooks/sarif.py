"""Diagnostics as SARIF 2.1.0, which code hosts show beside the lines they are about."""

import json
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from services.cli.console import screen
from shared.dsl.model.diagnostic_codes import CODES
from shared.dsl.model.diagnostics import Diagnostic

VERSION = "2.1.0"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(diagnostics: Iterable[Diagnostic]) -> str:
    found = list(diagnostics)
    used = sorted({each.code for each in found})
    driver = {"name": "noetlctl", "rules": [_rule(code) for code in used]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints",
           "results": [_result(each, used) for each in found]}
    return json.dumps({"$schema": SCHEMA, "version": VERSION, "runs": [run]}, ensure_ascii=not screen.takes_unicode())


def _rule(code: str) -> dict[str, Any]:
    title, doc = CODES[code]
    return {"id": code, "shortDescription": {"text": title}, "fullDescription": {"text": doc}}


def _result(each: Diagnostic, used: list[str]) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": quote(PurePath(each.file).as_posix())},
        "region": {"startLine": each.line, "startColumn": each.column},
    }
    return {
        "ruleId": each.code,
        "ruleIndex": used.index(each.code),
        "level": each.severity,
        "message": {"text": f"{each.message} ({each.fix})"},
        "locations": [{"physicalLocation": place}],
    }

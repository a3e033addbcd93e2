"""docs/operations.md and docs/cli.md say of pools what the code does."""

from textwrap import dedent
from typing import get_args

import pytest

from services.cli.commands.pool import command
from services.pools.leader import LEASE_S
from shared.dsl.documents import pools as documents
from shared.dsl.documents.compile import compile_pool
from shared.dsl.read.capabilities import MAX_CAPABILITIES
from shared.engine.pools.reconcile import State
from shared.runtime.stores import pools
from shared.tools import registry
from tests.support.paths import DOCS

PAGE = (DOCS / "operations.md").read_text(encoding="utf-8").split("\n## Pools\n")[1].split("\n## ")[0]
COMMANDS = (DOCS / "cli.md").read_text(encoding="utf-8").split("\n## pool\n")[1]


def test_the_document_of_the_page_is_valid() -> None:
    source = dedent(PAGE.split("`noetl_pools`:\n\n")[1].split("\n\n|")[0])
    compiled = compile_pool(source, kinds=registry.specs())
    assert compiled.diagnostics == ()
    assert compiled.document is not None
    assert (compiled.document.name, compiled.document.provides) == ("etl", ("eu", "gpu"))


@pytest.mark.parametrize("word", [
    *documents.SPEC_KEYS, *documents.BACKENDS, *get_args(State), "changing", "unattended",
])
def test_keys_and_states_are_documented(word: str) -> None:
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize("limit", [
    documents.MAX_WORKERS, documents.MAX_SLOTS, MAX_CAPABILITIES, documents.MAX_DRAIN_S,
    documents.DEFAULT_SLOTS, int(documents.DEFAULT_DRAIN_S), pools.MAX_POOLS, int(LEASE_S),
    int(documents.DEFAULT_SILENT_S), documents.MIN_SILENT_S,
])
def test_limits_are_documented(limit: int) -> None:
    assert f"{limit:,}" in PAGE


@pytest.mark.parametrize("name", sorted(command.commands))
def test_every_command_is_documented(name: str) -> None:
    assert f"noetlctl pool {name}" in COMMANDS

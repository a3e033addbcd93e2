"""What a shell completes beyond commands and options: nouns and statuses, topics of `explain`, and, by a short look at
the stack, the names that it has. A stack that does not answer at once completes nothing: no key press waits for it, and
nothing is printed between the words of a line."""

import os
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from shared.bus.ports import Bus

WITHIN_S = 2.0
Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
Names = Callable[["Bus"], Awaitable[Iterable[str]]]


def words(given: Iterable[str]) -> Complete:
    """One of them."""
    return lambda _ctx, _param, incomplete: _items(given, incomplete)


def listed(given: Iterable[str]) -> Complete:
    """Several of them, separated by commas."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        before, comma, last = incomplete.rpartition(",")
        used = before.split(",")
        return _items((f"{before}{comma}{each}" for each in given if each not in used), f"{before}{comma}{last}")

    return complete


def named(load: Names) -> Complete:
    """Names that the stack has."""
    return lambda ctx, _param, incomplete: _items(asked(ctx, load), incomplete)


def asked(ctx: click.Context, load: Names) -> list[str]:
    import asyncio

    from services.cli.stack import context
    from shared.runtime.service import logging

    async def ask() -> list[str]:
        async with asyncio.timeout(WITHIN_S), context.connected(context.find(ctx.params.get("context_file"))) as bus:
            return list(await load(bus))

    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            logging.configure("error", nowhere)
            return asyncio.run(ask())
    except Exception:  # whatever it is, this is not the moment to tell
        return []


async def _paths(bus: "Bus") -> Iterable[str]:
    from shared.runtime.stores import catalog

    return dict.fromkeys(entry.path for entry, _ in await catalog.everything(bus))


async def _pools(bus: "Bus") -> Iterable[str]:
    from shared.bus import pool_consumer
    from shared.runtime.stores import pools as store_pools

    return sorted({*await pool_consumer.names(bus), *await store_pools.everything(bus)})


async def _credentials(bus: "Bus") -> Iterable[str]:
    from shared.bus import topology

    return sorted(await bus.kv_all(topology.KEYCHAIN))


paths, pools, credentials = named(_paths), named(_pools), named(_credentials)


def versions(ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Of the path that is in the line already."""

    async def load(bus: "Bus") -> Iterable[str]:
        from shared.runtime.stores import catalog

        path = typed_path(ctx)
        return [entry.version for entry, _ in await catalog.everything(bus) if entry.path == path]

    return _items(asked(ctx, load), incomplete)


def typed_path(ctx: click.Context) -> str:
    """An option that still lacks its value leaves arguments unread."""
    return str(ctx.params.get("path") or (ctx.args[0] if ctx.args else ""))


def topics(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    from shared.dsl.authoring import explain
    from shared.tools import registry

    return _items(explain.topics(incomplete, registry.specs()), incomplete)


def _items(given: Iterable[str], incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(each) for each in given if each.startswith(incomplete) and each.isprintable()]

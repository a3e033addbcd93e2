"""A kind of tool that is there for one test, or one module of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from shared.tools import registry
from shared.tools.base.contract import ToolSpec


@contextmanager
def registered(spec: ToolSpec, factory: registry.Factory) -> Iterator[None]:
    """Others rely on its absence: the registry has no way back, as the product needs none."""
    registry.register(spec, factory)
    try:
        yield
    finally:
        del registry._SPECS[spec.kind], registry._FACTORIES[spec.kind]

"""What a call of `kind: python` can leave in its process for the next one to see, as far as it costs little to tell.
A process in which anything was left is not used again."""

import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from shared.tools.base import warden
from shared.tools.python import interpreter_state, kernel_state


class Leftovers:
    """As things are when it is made, before any call."""

    def __init__(self) -> None:
        self._forks = 0
        looks = {**interpreter_state.looks(), **kernel_state.looks()}
        self._looks = [(name, look, _kept(look())) for name, look in looks.items()]
        self._modules = dict(sys.modules)
        os.register_at_fork(after_in_parent=self._forked)

    def _forked(self) -> None:
        self._forks += 1

    def found(self) -> str:
        """What a call left behind; empty: nothing."""
        try:
            return next(self._differences(), "")
        except Exception as error:  # something was replaced that looking needs
            return f"{type(error).__name__} on looking"

    def _differences(self) -> Iterator[str]:
        if self._forks:
            yield "a copy of the process"
        if warden.has_children():
            yield "processes"
        for name, look, before in self._looks:
            if look() != before:
                yield name
        if sys.modules != self._modules:
            yield from self._changed_modules()

    def _changed_modules(self) -> Iterator[str]:
        """Those imported since are fine, also what a package puts beside itself while it is imported."""
        known, now = self._modules, dict(sys.modules)
        for name, module in known.items():
            if now.get(name) is not module:
                yield f"sys.modules[{name!r}]"
        for name, module in now.items():
            if name not in known and not _imported(name, module) and (
                    (top := name.partition(".")[0]) in known or not _imported(top, now.get(top))):
                yield f"sys.modules[{name!r}]"
        self._modules = now


def _kept(found: Any) -> Any:
    return dict(found) if isinstance(found, dict) else found


def _imported(name: str, module: Any) -> bool:
    spec = getattr(module, "__spec__", None)
    return isinstance(module, types.ModuleType) and spec is not None and spec.name == name

"""The host process imports no torch, transformers or sglang: what enforces it.

Stages do import them, in their own processes, which never install the guard.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

__all__ = ["FORBIDDEN", "ForbiddenImportError", "guarded", "install"]

FORBIDDEN = frozenset({"torch", "transformers", "sglang"})


class ForbiddenImportError(ImportError):
    """A module tried to import in the host process what belongs into stages."""


class _Refusal(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        message = (
            f"the host process never imports {spec.name}: import it in a stage, which is named "
            "by its dotted target and runs in its own process"
        )
        raise ForbiddenImportError(message, name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Never reached: there is no module to run."""


class _ImportGuard(MetaPathFinder):
    """Refuses the import, and yet lets `find_spec` tell whether a package is installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in FORBIDDEN or PathFinder.find_spec(fullname, path, target) is None:
            return None
        return ModuleSpec(fullname, _Refusal())


_guard = _ImportGuard()


def install() -> None:
    """Guard this process until it ends: what `omni serve` does."""
    if _guard not in sys.meta_path:
        sys.meta_path.insert(0, _guard)


@contextmanager
def guarded() -> Generator[None]:
    """Guard while plugin code runs in the host."""
    if _guard in sys.meta_path:
        yield
        return
    sys.meta_path.insert(0, _guard)
    try:
        yield
    finally:
        sys.meta_path.remove(_guard)

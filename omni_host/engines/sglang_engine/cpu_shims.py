"""What SGLang imports and a machine without CUDA does not have.

SGLang's modules import triton, torchvision, its own compiled kernels and a few others at
module level, whatever the device. On a CPU none of them is ever called: norms, rotation,
MoE, attention and the KV store have native torch paths. `install` puts stand-ins behind
the names that cannot be imported, and only those: the finder comes last on `sys.meta_path`
and knows no package that is installed, so where the real parts exist nothing changes.

It must run before the first `import sglang`, in every process.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

__all__ = ["STANDINS", "install"]

STANDINS = ("triton", "torchvision", "sgl_kernel", "xgrammar", "IPython")
"""The packages that may be stood in for; SGLang works without any of them on a CPU."""


class _Absent:
    """An attribute of an absent package: a decorator, a marker, never a function that runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__name__ = name.rpartition(".")[2]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and callable(args[0]):
            return _AbsentKernel(args[0], self.name)
        return partial(_AbsentKernel, package=self.name)

    def __getattr__(self, name: str) -> _Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self.name}.{name}")

    def __or__(self, other: object) -> _Absent:
        return self

    __ror__ = __or__


class _AbsentKernel:
    """A decorated kernel: defined, never launched."""

    def __init__(self, function: Callable[..., Any], package: str) -> None:
        self.fn = function
        self.package = package
        self.__name__ = getattr(function, "__name__", "kernel")
        self.__module__ = getattr(function, "__module__", "")
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise ImportError(f"kernel {self.__name__} needs {self.package}, which is not installed")

    def __getitem__(self, grid: Any) -> Any:
        return self


def _absent_class(name: str) -> type:
    """An empty class that also passes as the type of a pydantic field."""

    def schema(cls: type, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # noqa: PLC0415

        return core_schema.any_schema()

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        pass

    members: dict[str, Any] = {
        "__get_pydantic_core_schema__": classmethod(schema),
        "__init__": init,
    }
    return type(name, (), members)


class _StandIn(ModuleType):
    """A module any name can be imported from: classes by capitals, else `_Absent`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name[:1].isupper():
            value: Any = _absent_class(name)
        else:
            value = _Absent(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class _StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for `roots` and everything below them."""

    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = frozenset(roots)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self.roots:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__version__"] = "0.0.0+absent"


def _settle_probes() -> None:
    """Let torch and transformers see that the packages are absent before anything stands in.

    Both cache the answer; a stand-in seen by these probes would be taken for the real thing.
    """
    triton: Any = importlib.import_module("torch.utils._triton")
    triton.has_triton_package()
    triton.has_triton()
    # This module runs transformers' __init__ again, so it must not come after what follows.
    importlib.import_module("transformers.processing_utils")
    probes: Any = importlib.import_module("transformers.utils.import_utils")
    probes.is_torchvision_available()


def _stand_in_image_processor() -> None:
    """Without torchvision transformers' `AutoImageProcessor` raises on any use, `register` too."""
    transformers: Any = importlib.import_module("transformers")

    class AutoImageProcessor:
        @staticmethod
        def register(*args: Any, **kwargs: Any) -> None:
            pass

        @classmethod
        def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
            raise ImportError("image processors need torchvision, which is not installed")

    transformers.AutoImageProcessor = AutoImageProcessor


def _allow_registering_again() -> None:
    """0.5.17 registers configurations that transformers > 5.12.1 brings itself."""
    config: Any = importlib.import_module("transformers").AutoConfig
    register = config.register

    def register_again(model_type: str, kind: type, exist_ok: bool = True) -> None:  # noqa: FBT001, FBT002  transformers' signature
        register(model_type, kind, exist_ok=True)

    config.register = staticmethod(register_again)


def install() -> tuple[str, ...]:
    """Stand in for what is missing; returns the names, empty where all is there or done."""
    if any(isinstance(finder, _StandInFinder) for finder in sys.meta_path):
        return ()
    os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")
    missing = tuple(name for name in STANDINS if importlib.util.find_spec(name) is None)
    _settle_probes()
    if "torchvision" in missing:
        _stand_in_image_processor()
    _allow_registering_again()
    sys.meta_path.append(_StandInFinder(missing))
    return missing

"""Are a module's hooks what `omni_host.hookspecs` describes? Asked before pluggy sees them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pluggy

from omni_host import hookspecs
from omni_host.plugins.faults import FaultKind, did_you_mean

__all__ = ["HOOKS", "WRAPPABLE", "hook_problem"]

Problem = tuple[FaultKind, str]

HOOKS: dict[str, tuple[str, ...]] = {
    name: tuple(inspect.signature(value).parameters)
    for name, value in vars(hookspecs).items()
    if isinstance(value, FunctionType) and hasattr(value, "omni_host_spec")
}
"""Every hook with the arguments it may ask for."""

WRAPPABLE = frozenset({"build_stages"})


def hook_problem(module: ModuleType) -> Problem | None:
    """The first thing wrong with the hooks of `module`, in order of their names."""
    return next(_problems(module), None) or _refused_by_pluggy(module)


def _problems(module: ModuleType) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for attribute, value in sorted(vars(module).items()):
        if not inspect.isroutine(value):
            continue
        options: Any = getattr(value, "omni_host_impl", None)
        if isinstance(options, dict):
            hook = str(options.get("specname") or attribute)  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]
            if hook in seen:
                yield "repeated-hook", f"'{attribute}' and '{seen[hook]}' both implement {hook}"
            seen[hook] = attribute
            yield from _of_hook(hook, attribute, value, dict[str, Any](options))  # pyright: ignore[reportUnknownArgumentType]
        elif attribute in HOOKS and getattr(value, "__module__", None) == module.__name__:
            yield "unmarked-hook", f"the function '{attribute}' is not marked with @hookimpl"


def _refused_by_pluggy(module: ModuleType) -> Problem | None:
    """Let a manager of its own register the module: the real one must not fail."""
    manager = pluggy.PluginManager("omni_host")
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(module)
    except pluggy.PluginValidationError as error:
        return "invalid-hook", " ".join(str(error).split())
    return None


def _of_hook(hook: str, attribute: str, value: Any, options: dict[str, Any]) -> Iterator[Problem]:
    if hook not in HOOKS:
        if not options.get("optionalhook"):
            yield "unknown-hook", f"there is no hook '{hook}'.{did_you_mean(hook, HOOKS)}"
        return
    if options.get("tryfirst") or options.get("trylast"):
        yield (
            "hook-order",
            f"'{attribute}' asks to be first or last; hooks are called in order of plugin name",
        )
    if (options.get("wrapper") or options.get("hookwrapper")) and hook not in WRAPPABLE:
        yield "hook-wrapper", f"'{attribute}' wraps {hook}; only build_stages may be wrapped"
    if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value):
        yield "invalid-hook", f"'{attribute}' is async; hooks are plain functions"
    known = HOOKS[hook]
    required = [
        p.name
        for p in inspect.signature(value).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    for name in required:
        if name not in known:
            may = ", ".join(known) or "nothing"
            meant = did_you_mean(name, known)
            yield "hook-arguments", f"{hook} is not given '{name}', it may ask for {may}.{meant}"

"""Calling hooks: through pluggy alone, one plugin at a time, in order of plugin name.

pluggy calls the last registered plugin first and stops a call at the first error.
Here every answer is asked for through a subset caller that holds one plugin, so each
error has a plugin's name, and load order decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, TypeVar

import pluggy

from omni_host import hookspecs
from omni_host.errors import HookError, OmniError
from omni_host.plugins import import_guard
from omni_host.plugins.faults import Fault, FaultKind, as_sentence, log_fault, upgrade_or_block
from omni_host.plugins.loading import LoadedPlugin
from omni_host.plugins.plugin_sources import PluginSource, raised
from omni_host.plugins.results import Expect, UnexpectedResultError

__all__ = ["HookCalls"]

T = TypeVar("T")


class HookCalls:
    """The hooks of the loaded plugins. `in_host` keeps torch out while they run."""

    def __init__(self, loaded: Iterable[LoadedPlugin], *, in_host: bool) -> None:
        self._loaded = {p.name: p for p in sorted(loaded, key=lambda p: p.name)}
        self._in_host = in_host
        self._faults: list[Fault] = []
        self._manager = pluggy.PluginManager("omni_host")
        self._manager.add_hookspecs(hookspecs)
        for plugin in reversed(self._loaded.values()):
            self._manager.register(plugin.module, name=plugin.name)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What isolated calls have met so far."""
        return tuple(self._faults)

    @property
    def plugins(self) -> Mapping[str, LoadedPlugin]:
        """The loaded plugins, in order of name."""
        return self._loaded

    def implementers(self, hook: str) -> tuple[str, ...]:
        """The plugins that answer `hook`, wrappers aside, in order of name."""
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        names = {i.plugin_name for i in caller.get_hookimpls() if not _wraps(i)}
        return tuple(sorted(names))

    def wrappers(self, hook: str) -> tuple[str, ...]:
        """The plugins that wrap `hook`, the outermost first."""
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        return tuple(sorted({i.plugin_name for i in caller.get_hookimpls() if _wraps(i)}))

    def ask(self, plugin: str, hook: str, expect: Expect[T], **arguments: Any) -> T:
        """The answer of one plugin, with the wrappers of others around it.

        Raises HookError, naming plugin, distribution and hook, if it raises anything but
        an `OmniError` or returns what `expect` refuses.
        """
        others = [self._loaded[name].module for name in self.implementers(hook) if name != plugin]
        caller = self._manager.subset_hook_caller(hook, others)
        asked = self._loaded[plugin]
        try:
            with import_guard.guarded() if self._in_host else nullcontext():
                result = caller(**arguments)
                # A collecting hook answers with a list, of one at most here.
                if not (caller.spec and caller.spec.opts["firstresult"]):
                    result = result[0] if result else None
                return expect(result)
        except (OmniError, KeyboardInterrupt):
            raise
        except UnexpectedResultError as error:
            raise self._hook_error(asked, hook, str(error)) from None
        except BaseException as error:
            culprit = self._culprit(error, asked)
            raise self._hook_error(culprit, hook, f"raised {raised(error)}", error) from error

    def ask_isolated(self, plugin: str, hook: str, expect: Expect[T], **arguments: Any) -> T | None:
        """As `ask`; an error becomes a fault of the plugin and the answer None."""
        try:
            return self.ask(plugin, hook, expect, **arguments)
        except OmniError as error:
            self.isolate(plugin, hook, error)
            return None

    def ask_all(
        self, hook: str, expect: Expect[T], **arguments: Any
    ) -> Iterator[tuple[str, T | None]]:
        """Every plugin's answer with its name; None where it had none or failed."""
        for plugin in self.implementers(hook):
            yield plugin, self.ask_isolated(plugin, hook, expect, **arguments)

    def isolate(self, plugin: str, hook: str, error: OmniError) -> None:
        """Record `error` as a fault and go on."""
        text = error.message if isinstance(error, HookError) else f"{hook} raised {error}"
        cause = text.removeprefix(f"{self._loaded[plugin]}: ").removesuffix(".")
        fix = error.hint if isinstance(error, HookError) else ""
        self.record(plugin, "hook-failed", cause, fix)

    def record(self, plugin: str, kind: FaultKind, cause: str, fix: str = "") -> None:
        """Report and log a fault of a loaded plugin, once."""
        distribution = self._loaded[plugin].distribution
        fault = Fault(
            plugin=plugin,
            distribution=distribution.name,
            version=distribution.version,
            kind=kind,
            cause=cause,
            fix=fix or _fix(self._loaded[plugin]),
        )
        if fault not in self._faults:
            self._faults.append(fault)
            log_fault(fault)

    def _culprit(self, error: BaseException, asked: LoadedPlugin) -> LoadedPlugin:
        """The plugin whose code raised: a wrapper may have, rather than the one asked."""
        modules = {p.module.__name__: p for p in self._loaded.values()}
        culprit, frame = asked, error.__traceback__
        while frame is not None:
            culprit = modules.get(frame.tb_frame.f_globals.get("__name__", ""), culprit)
            frame = frame.tb_next
        return culprit

    def _hook_error(
        self, plugin: LoadedPlugin, hook: str, what: str, error: BaseException | None = None
    ) -> HookError:
        source = PluginSource.of(plugin.module.__name__)
        line = source.shown_line(error) if source and error else ""
        return HookError(
            as_sentence(f"{plugin}: {hook} {what}{line}"),
            hint=_fix(plugin, error),
            field=plugin.name,
        )


def _wraps(implementation: pluggy.HookImpl) -> bool:
    return implementation.wrapper or implementation.hookwrapper


def _fix(plugin: LoadedPlugin, error: BaseException | None = None) -> str:
    source = PluginSource.of(plugin.module.__name__)
    if source is None:
        return upgrade_or_block(plugin.name, plugin.distribution.name)
    return source.fix(plugin.name, plugin.distribution.name, error)

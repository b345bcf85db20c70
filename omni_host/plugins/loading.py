"""Loading one plugin: import its module and hold it to the rules, or say what is wrong."""

from __future__ import annotations

import importlib
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from types import ModuleType

from omni_host.offers import API_VERSION, PluginInfo
from omni_host.plugins.distributions import Distribution
from omni_host.plugins.entry_points import EntryPoint
from omni_host.plugins.faults import Fault, FaultKind, upgrade_or_block
from omni_host.plugins.hook_checks import hook_problem
from omni_host.plugins.import_guard import FORBIDDEN
from omni_host.plugins.plugin_sources import PluginSource, raised

__all__ = ["LoadedPlugin", "load_plugin"]

SUPPORTED_API_VERSIONS = tuple(v for v in (API_VERSION, API_VERSION - 1) if v > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlugin:
    """A plugin that keeps the rules."""

    name: str
    module: ModuleType
    info: PluginInfo
    distribution: Distribution

    def __str__(self) -> str:
        return f"plugin '{self.name}' ({self.distribution})"


def load_plugin(point: EntryPoint) -> LoadedPlugin | Fault:
    """Import the module of `point`. Raises nothing but KeyboardInterrupt."""
    try:
        # A plugin that prints must not end up in `omni list-plugins --json`.
        with redirect_stdout(sys.stderr):
            module = importlib.import_module(point.value)
        return _checked(point, module)
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        cause = f"it ends the process at import: {error.code!r}"
        return _fault(point, "exits-at-import", cause, error=error)
    except ImportError as error:
        return _import_fault(point, error)
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything; the host goes on
        return _fault(point, "import-failed", _described(error), error=error)


def _checked(point: EntryPoint, module: ModuleType) -> LoadedPlugin | Fault:
    info: object = vars(module).get("PLUGIN")
    if not isinstance(info, PluginInfo):
        what = "has no PLUGIN" if info is None else f"has a PLUGIN of type {type(info).__name__}"
        return _fault(
            point,
            "no-plugin-info",
            f"{point.value} {what}; it needs PLUGIN = PluginInfo(name='{point.name}', ...)",
        )
    if info.api_version not in SUPPORTED_API_VERSIONS:
        return _api_fault(point, info.api_version)
    if info.name != point.name:
        return _fault(
            point,
            "name-mismatch",
            f"PLUGIN.name is '{info.name}', the entry point's name '{point.name}'",
        )
    if not isinstance(info.summary, str) or not isinstance(info.verified, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return _fault(point, "no-plugin-info", "summary and verified of PLUGIN must be text")
    problem = hook_problem(module)
    if problem is not None:
        return _fault(point, *problem)
    return LoadedPlugin(name=point.name, module=module, info=info, distribution=point.distribution)


def _api_fault(point: EntryPoint, version: int) -> Fault:
    supported = " and ".join(str(v) for v in SUPPORTED_API_VERSIONS)
    newer = isinstance(version, int) and version > API_VERSION  # pyright: ignore[reportUnnecessaryIsInstance]
    return _fault(
        point,
        "api-version",
        f"it was written for plugin API {version!r}; this host supports {supported}",
        fix="pip install --upgrade omni-host" if newer else "",
    )


def _import_fault(point: EntryPoint, error: ImportError) -> Fault:
    missing = (error.name or "").partition(".")[0]
    if missing in FORBIDDEN:
        return _fault(
            point,
            "forbidden-import",
            f"it imports {missing} in the host process, which never does: "
            "that belongs into the stages, which are named by dotted targets",
            error=error,
        )
    source = PluginSource.of(point.value)
    reinstalled = missing and (source is None or source.installed)
    return _fault(
        point,
        "import-failed",
        _described(error),
        fix=f"pip install --force-reinstall {point.distribution.name}" if reinstalled else "",
        error=error,
    )


def _described(error: BaseException) -> str:
    """The error's type and text, and where in the plugin it was raised."""
    text = raised(error)
    frame = error.__traceback__
    place = ""
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if file != __file__ and not file.startswith("<frozen"):
            place = f" ({file}, line {frame.tb_lineno})"
        frame = frame.tb_next
    if isinstance(error, SyntaxError) or "importlib" in place:
        place = ""
    return f"{text}{place}"


def _fault(
    point: EntryPoint,
    kind: FaultKind,
    cause: str,
    fix: str = "",
    error: BaseException | None = None,
) -> Fault:
    name = point.distribution.name
    source = None if fix else PluginSource.of(point.value)
    if source is not None:
        fix = source.fix(point.name, name, error)
    return Fault(
        plugin=point.name,
        distribution=name,
        version=point.distribution.version,
        kind=kind,
        cause=cause,
        fix=fix or upgrade_or_block(point.name, name),
    )

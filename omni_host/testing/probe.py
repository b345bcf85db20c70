"""A program that builds a plugin's graph in a fresh interpreter and watches what it does.

An audit hook cannot be taken away again and what is imported stays, so that none of this
can be seen in the process of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import msgpack

from omni_host import api
from omni_host.graph import StageGraph
from omni_host.offers import PlatformProbe
from omni_host.runtime.plain import from_plain, to_plain
from omni_host.testing.audit import Audit

__all__ = ["ProbeOrder", "ProbeReport", "probe"]

_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOrder:
    """What to build. `module` is the plugin's, `path` the `sys.path` to find it on."""

    path: tuple[str, ...]
    module: str
    plugin: str
    reference: str
    revision: str | None
    options: dict[str, Any]
    platform: PlatformProbe


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """What was seen.

    Attributes:
        imported: the modules that importing the plugin's module brings beside `omni_host.api`.
        imported_later: those that resolving the model and building its graph bring.
        repeated: whether the same arguments gave the same graph again.
        graph: as plain data, or None if it holds something else.
        touched: what building it opened, started or changed outside of itself.
    """

    imported: tuple[str, ...]
    imported_later: tuple[str, ...]
    repeated: bool
    graph: dict[str, Any] | None
    touched: tuple[str, ...]


def probe(order: ProbeOrder, *, hash_seed: int) -> ProbeReport:
    """Run the program. `hash_seed` decides the order in which sets are gone through.

    Raises RuntimeError with its last output if it fails.
    """
    done = subprocess.run(
        [sys.executable, "-B", "-P", "-m", "omni_host.testing.probe"],
        input=msgpack.packb(to_plain(order)),
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": _search_path()},
    )
    if done.returncode:
        raise RuntimeError(f"the graph cannot be built:\n{done.stderr.decode(errors='replace')}")
    return from_plain(ProbeReport, msgpack.unpackb(done.stdout))


def main() -> None:
    """Read a `ProbeOrder` from standard input and write a `ProbeReport` to standard output."""
    order = from_plain(ProbeOrder, msgpack.unpackb(sys.stdin.buffer.read()))
    # Whatever a plugin prints must not end up in the report.
    report_to = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:] = order.path
    imported = _import(order.module)
    report = _build(order, imported)
    with report_to:
        report_to.write(msgpack.packb(to_plain(report)))


def _import(module: str) -> tuple[str, ...]:
    before = set(sys.modules)
    import_module(module)
    return tuple(sorted(set(sys.modules) - before))


def _build(order: ProbeOrder, imported: tuple[str, ...]) -> ProbeReport:
    from omni_host.plugins import Plugins, discover  # noqa: PLC0415 - not before the plugin

    # The plugin alone, so that nothing is laid at its door that others do.
    plugins = Plugins.load(discover(), allow=(order.plugin,))
    modules = set(sys.modules)
    model = plugins.resolve_model(order.reference, order.revision, owner=order.plugin).model

    def build() -> StageGraph:
        return plugins.build_stages(order.plugin, model, order.options, order.platform)

    environment, threads = dict(os.environ), threading.active_count()
    with Audit() as audit:
        first, second = build(), build()
    touched = [*audit.events]
    if os.environ != environment:
        touched.append("changed the environment")
    if threading.active_count() > threads:
        touched.append("started a thread")
    for stage in first.stages:
        plugins.server_args(order.plugin, stage, order.platform, {})
    return ProbeReport(
        imported=imported,
        imported_later=tuple(sorted(set(sys.modules) - modules)),
        repeated=first == second,
        graph=_plain(first),
        touched=tuple(dict.fromkeys(touched)),
    )


def _plain(graph: StageGraph) -> dict[str, Any] | None:
    try:
        data: dict[str, Any] = to_plain(graph)
        msgpack.packb(data)
    except (TypeError, ValueError, OverflowError):
        return None
    return data


def _search_path() -> str:
    """Where omni-host itself is found, should it not be installed."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(api.__file__)))  # noqa: PTH100, PTH120
    return os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), root)))


if __name__ == "__main__":
    main()

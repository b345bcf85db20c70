"""The operator's word on a graph: what `[stages.*]`, `[edges.*]` and `placement` change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from omni_host.config.keys import dotted
from omni_host.config.settings import Settings
from omni_host.config.tables import BatchingTable, StageTable
from omni_host.errors import ConfigError
from omni_host.graph import Batching, Edge, StageGraph, StageSpec
from omni_host.offers import TransportSpec
from omni_host.plugins.faults import did_you_mean

__all__ = ["edge_name", "override"]

FUSED_PROCESS = "stages"


def override(
    graph: StageGraph, settings: Settings, transports: Mapping[str, TransportSpec]
) -> StageGraph:
    """Apply the settings to the graph that the plugin built.

    Server arguments are left alone: they are ranked with those of the plugins.
    Raises ConfigError for a stage, edge or transport that does not exist.
    """
    values = settings.values
    _check_names(settings, "stages", values.stages, [stage.name for stage in graph.stages])
    _check_engines(settings, graph.stages)
    _check_names(settings, "edges", values.edges, [edge_name(edge) for edge in graph.edges])
    for name, table in values.edges.items():
        if table.transport not in {None, "auto", *transports}:
            key = ("edges", name, "transport")
            raise ConfigError(
                f"There is no transport '{table.transport}' for {dotted(key)} "
                f"(from {settings.source(*key)}).{did_you_mean(table.transport or '', transports)}",
                hint=f"Installed: {', '.join(sorted(transports))}.",
                field=dotted(key),
            )
    return replace(
        graph,
        stages=tuple(_stage(stage, settings) for stage in graph.stages),
        edges=tuple(_edge(edge, settings) for edge in graph.edges),
    )


def edge_name(edge: Edge) -> str:
    """An edge's name in the configuration."""
    return f"{edge.source}->{edge.target}"


def _stage(stage: StageSpec, settings: Settings) -> StageSpec:
    table = settings.values.stages.get(stage.name, StageTable())
    stage = _place(stage, settings.values.placement)
    return replace(
        stage,
        process=table.process or stage.process,
        device=table.device or stage.device,
        engine=table.engine or stage.engine,
        python=table.python or stage.python,
        env={**stage.env, **table.env},
        batching=_batching(stage.batching, table.batching),
        max_concurrent=table.max_concurrent or stage.max_concurrent,
    )


def _place(stage: StageSpec, placement: str) -> StageSpec:
    if placement == "fused":
        return replace(stage, process=FUSED_PROCESS)
    if placement == "separate":
        return replace(stage, process=stage.name)
    return stage


def _batching(batching: Batching, table: BatchingTable) -> Batching:
    wait = table.max_wait_seconds
    return Batching(
        max_size=table.max_size or batching.max_size,
        max_wait_s=batching.max_wait_s if wait is None else wait,
    )


def _edge(edge: Edge, settings: Settings) -> Edge:
    table = settings.values.edges.get(edge_name(edge))
    if table is None:
        return edge
    return replace(
        edge,
        transport=table.transport or edge.transport,
        credits=table.credits or edge.credits,
    )


def _check_engines(settings: Settings, stages: Iterable[StageSpec]) -> None:
    for stage in stages:
        table = settings.values.stages.get(stage.name, StageTable())
        if table.engine is not None and stage.engine is None:
            key = ("stages", stage.name, "engine")
            raise ConfigError(
                f"{dotted(key)} = {table.engine!r} (from {settings.source(*key)}): the stage "
                f"{stage.name} takes no engine.",
                hint=f"Leave {dotted(key)} out.",
                field=dotted(key),
            )


def _check_names(settings: Settings, table: str, given: Iterable[str], known: list[str]) -> None:
    for name in given:
        if name not in known:
            key = dotted((table, name))
            source = ", ".join(
                dict.fromkeys(
                    e.source for k, e in settings.entries.items() if k[:2] == (table, name)
                )
            )
            raise ConfigError(
                f"{key} (from {source}) is no part of this model.{did_you_mean(name, known)}",
                hint=f"Its {table} are {', '.join(known) or 'none'}.",
                field=key,
            )

"""A tree of agents as the Runner keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.definitions.tree.process_groups import ProcessGroup
from runtime.cluster.packing.definitions import PackedDefinitions


@dataclass(frozen=True)
class PackedTree:
    """What a Runner needs to activate agents; it travels from the driver to the Runner.

    Attributes:
        definitions: of all agents.
        process_groups: of the agents that cannot live in any process.
        modules: slow imports to preload where agents will live.
        models: the models of agents that name one, by agent.
    """

    definitions: PackedDefinitions
    process_groups: Mapping[str, ProcessGroup]
    modules: Sequence[str]
    models: Mapping[str, str]

"""A process of agents looks for garbage rarely, however it came to its agents."""

from __future__ import annotations

from typing import Any, cast

import pytest

from actors import LlmAgent
from actors.agent.environment import AgentEnvironment
from actors.layers.trees.tree import AgentTree
from actors.testing import PatternModel
from runtime.cluster.packing.definitions import pack_tree
from runtime.cluster.processes import agent_host
from runtime.cluster.processes.agent_host import AgentHost
from runtime.cluster.transport.clients import CoreHandles
from runtime.cluster.transport.wires import WireOptions


class Host(AgentHost):
    """As Ray makes it, a class for this process alone: it is named anew."""


@pytest.mark.parametrize("is_prepared", [True, False])
async def test_it_does_so_when_its_first_agent_is_there_and_leaves_alone_what_runs_when_others_come(
    is_prepared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    environment = AgentEnvironment(*cast(Any, (None,) * 4))
    host = Host(lambda *_: environment, "host", CoreHandles((), (), None, WireOptions("ray", b"s" * 32)), 1)
    monkeypatch.setattr(agent_host, "look_less_often", lambda: looked.append(len(host._actors)))
    desk = LlmAgent(name="desk", model=PatternModel([], default="hello"))
    tree = AgentTree(LlmAgent(name="root", model=PatternModel([], default="hello"), sub_agents=[desk]))
    definitions = pack_tree(tree, lambda model: model)
    if is_prepared:
        await host.prepare(())
    prepared = [0] if is_prepared else []
    await host.activate(0, definitions["root"], ())
    assert looked == [*prepared, 1]
    await host.activate(1, definitions["desk"], ())
    assert looked == [*prepared, 1]
    await host.passivate((0, 1))
    await host.activate(2, definitions["root"], ())
    assert looked == [*prepared, 1, 1]

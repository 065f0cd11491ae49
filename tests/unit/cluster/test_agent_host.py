"""A process of agents looks for garbage rarely, and says where it listens when it is prepared or gets an agent: without Ray."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import ray

from actors import LlmAgent
from actors.agent.environment import AgentEnvironment
from actors.layers.trees.tree import AgentTree
from actors.refs import AgentRef
from actors.testing import PatternModel
from runtime.cluster.packing.definitions import pack_tree
from runtime.cluster.processes import agent_host
from runtime.cluster.processes.agent_host import AgentHost
from runtime.cluster.processes.ray_processes import RayProcess
from runtime.cluster.ray import process as ray_process_titles
from runtime.cluster.transport import wires
from runtime.cluster.transport.clients import CoreHandles
from runtime.cluster.transport.wires import Transport, WireOptions, Wires


class Host(AgentHost):
    """As Ray makes it, a class for this process alone: it is named anew."""


class CountingHandle:
    """Stands in for Ray's handle of a host, and counts the calls by their names."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return Method(self, name, getattr(self._host, name))


class Method:
    """A method of the handle."""

    def __init__(self, handle: CountingHandle, name: str, call: Callable[..., Awaitable[Any]]) -> None:
        self._handle = handle
        self._name = name
        self._call = call

    def remote(self, *args: Any) -> Awaitable[Any]:
        self._handle.calls[self._name] += 1
        return asyncio.ensure_future(self._call(*args))


@pytest.fixture
def options(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> WireOptions:
    """Of a deployment on one node."""
    for module in (wires, agent_host):
        monkeypatch.setattr(module, "this_node", lambda: "here")
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    transport: Transport = request.param
    return WireOptions(transport, b"s" * 32)


@pytest.mark.parametrize("is_prepared", [True, False])
@pytest.mark.parametrize("options", ["ray"], indirect=True)
async def test_it_looks_for_garbage_rarely_when_its_first_agent_is_there_and_leaves_alone_what_runs_when_others_come(
    options: WireOptions, is_prepared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    environment = AgentEnvironment(*cast(Any, (None,) * 4))
    host = Host(lambda *_: environment, "host", CoreHandles((), (), None, options), 1)
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


@pytest.mark.parametrize("is_prepared", [True, False])
@pytest.mark.parametrize(
    ("options", "over_ray"), [("direct", {}), ("ray", {"receive": 3})], indirect=["options"], ids=["direct", "ray"]
)
async def test_it_is_not_asked_for_that_and_is_titled_by_its_agent(
    options: WireOptions, over_ray: dict[str, int], is_prepared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = [""]
    monkeypatch.setattr(ray_process_titles, "title_functions", lambda: (lambda: titles[-1], titles.append))
    tree = AgentTree(LlmAgent(name="root", model=PatternModel([], default="hello")))
    environment = AgentEnvironment(*cast(Any, (None,) * 4))
    host = Host(lambda *_: environment, "host", CoreHandles((), (), None, options), 1)
    handle = CountingHandle(host)
    runners = Wires(options)
    links = runners.peer(cast(Any, handle), "host")
    definitions: Any = pack_tree(tree, lambda model: model)
    worker = RayProcess("host", cast(Any, handle), links, definitions, (), 10.0)
    if is_prepared:
        await worker.prepare()
    await worker.activate(0, "root", ())
    root = AgentRef(worker.link("root", 0))
    assert [(await root.statistics()).agent for _ in range(3)] == ["root"] * 3
    assert handle.calls == {**({"prepare": 1} if is_prepared else {}), "activate": 1, **over_ray}
    assert titles == ["", "ray::AgentHost[root]"]
    # Another call of Ray's ends, which began before the agent was there.
    titles.append("ray::AgentHost")
    await root.statistics()
    assert titles[-1] == "ray::AgentHost[root]"
    await runners.close()
    if (server := host._listener._server) is not None:
        await server.close()

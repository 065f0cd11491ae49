"""The Runner's choice of the agent that gets a message."""

from __future__ import annotations

from actors.layers.limiter.actor import LimiterActor
from actors.messages.topology import AgentNode, Topology
from actors.refs import SessionRef
from actors.runner.routing import Routing
from runtime.engine.local import LocalLink


async def test_a_runner_that_was_given_the_tree_asks_nobody_for_it() -> None:
    tree = Topology.of([AgentNode(name="root")])
    # Any actor that is no session.
    routing = Routing(SessionRef(LocalLink(LimiterActor({}))), tree)
    await routing.load()
    assert routing.select([], "") == "root"

"""An agent's actor that stops, and its runs that are stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from actors import LlmAgent, ReadonlyContext, Tool, Toolset
from actors.agent.actor import AgentActor
from actors.agent.environment import AgentEnvironment
from actors.layers.trees.tree import AgentTree
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import USER, Event
from actors.messages.protocol.base import Ack, Stop
from actors.messages.session import SessionKey
from actors.testing import PatternModel
from tests.support.any_message import decode_message
from tests.support.fixtures.runner_fixture import RunnerFixture


async def test_it_replies_when_its_logs_have_left_the_process() -> None:
    """Its process may end as soon as it has replied."""
    has_left = asyncio.Event()
    nothing = cast(Any, None)

    async def hand_on_logs() -> None:
        await has_left.wait()

    environment = AgentEnvironment(nothing, nothing, nothing, nothing, hand_on_logs=hand_on_logs)
    spec = AgentTree(LlmAgent(name="root", model=PatternModel([], default="hello"))).spec("root")
    stopping = asyncio.create_task(AgentActor(spec, environment, "host").receive(encode(Stop())))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not stopping.done()
    has_left.set()
    assert isinstance(decode_message(await stopping), Ack)


async def test_a_run_that_is_stopped_before_its_message_comes_is_cancelled() -> None:
    nothing = cast(Any, None)
    spec = AgentTree(LlmAgent(name="root", model=PatternModel([], default="hello"))).spec("root")
    actor = AgentActor(spec, AgentEnvironment(nothing, nothing, nothing, lambda agent, model: nothing))
    turn = p.TurnRef(SessionKey("app", "ada", "s1"), "e-1", 1, run=1)
    asked = p.StoredEvent(1, encode(Event(id="asked", author=USER)))
    assert isinstance(decode_message(await actor.receive(encode(p.StopRun(turn=turn, runs=(1,))))), Ack)
    invoke = p.Invoke(turn=turn, agent="root", user_event=asked)
    assert decode_message(await actor.receive(encode(invoke))) == p.Cancelled(agent="root")
    assert actor.figures().counts["running"] == 0


class Shared(Toolset):
    """Counts how often it is closed."""

    closed = 0

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        return ()

    async def aclose(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("first", ["root", "other"])
async def test_a_toolset_is_closed_when_the_last_agent_that_has_used_it_stops(tmp_path: Path, first: str) -> None:
    toolset = Shared()
    other = LlmAgent(name="other", model=PatternModel([], default="hello"), tools=[toolset])
    root = LlmAgent(name="root", model=PatternModel([], default={"transfer": "other"}), tools=[toolset], sub_agents=[other])
    house = RunnerFixture(root, tmp_path)
    await house.run()
    links = dict(house.directory.live())
    for name, closed in ((first, 0), (next(name for name in links if name != first), 1)):
        await links[name].send(encode(p.Stop()))
        assert toolset.closed == closed
    await house.close()
    assert toolset.closed == 1

"""An agent's actor that stops, and its runs that are stopped."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from actors import LlmAgent
from actors.agent.actor import AgentActor
from actors.agent.environment import AgentEnvironment
from actors.definitions.tree import AgentTree
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import USER, Event
from actors.messages.protocol.any_message import decode_message
from actors.messages.protocol.base import Ack, Stop
from actors.messages.session import SessionKey
from actors.testing import PatternModel


class Replies:
    """Takes the replies to one message."""

    def __init__(self) -> None:
        self.last: list[p.Message] = []

    def reply(self, raw: bytes) -> None:
        self.last.append(decode_message(raw))

    def reply_early(self, raw: bytes) -> None:
        raise AssertionError("none was asked for")


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


async def test_a_run_that_is_stopped_before_its_first_step_is_cancelled() -> None:
    nothing = cast(Any, None)
    spec = AgentTree(LlmAgent(name="root", model=PatternModel([], default="hello"))).spec("root")
    actor = AgentActor(spec, AgentEnvironment(nothing, nothing, nothing, lambda agent, model: nothing))
    turn, replies = p.TurnRef(SessionKey("app", "ada", "s1"), "e-1", 1, run=1), Replies()
    asked = p.StoredEvent(1, encode(Event(id="asked", author=USER)))
    assert actor.begin(encode(p.Invoke(turn=turn, agent="root", user_event=asked)), replies) is None
    stopped = await actor.receive(encode(p.StopRun(turn=turn, runs=(1,))))
    assert isinstance(decode_message(stopped), Ack)
    assert replies.last == [p.Cancelled(agent="root")]
    assert actor.figures().counts["running"] == 0

"""An agent's actor that stops hands on what was logged before it replies: its process may end as soon as it has replied."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from actors import LlmAgent
from actors.agent.actor import AgentActor
from actors.agent.environment import AgentEnvironment
from actors.definitions.tree import AgentTree
from actors.messages.codec import encode
from actors.messages.protocol.any_message import decode_message
from actors.messages.protocol.base import Ack, Stop
from actors.testing import PatternModel


async def test_it_replies_when_its_logs_have_left_the_process() -> None:
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

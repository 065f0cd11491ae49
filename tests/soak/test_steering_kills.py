"""Messages to agents that are at work, while one process of the deployment after the other is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import Content, LlmAgent, LlmRequest, LlmResponse, Part, RunConfig
from actors.errors import AgentLostError
from actors.messages.content import FunctionCall
from runtime import Runtime
from runtime.driver.turns.turn import Turn
from tests.support.machine.killer import Killer
from tests.support.machine.terminal import Tell
from tests.support.runtimes import Deploy, stored

STEER = RunConfig(on_concurrent_turn="steer")

MESSAGES = 300

AT_ONCE = 6

PAUSE_S = 0.6
"""Between two kills. A turn fails whose agent is lost for the third time."""


class Echo:
    """Calls a tool that takes a while, and then says which messages it was shown."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        last = request.contents[-1]
        if last.text.startswith("begin"):
            call = FunctionCall(name="work", args={})
            yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call)]))
            return
        said = " ".join(each.text for each in request.contents if each.role == "user" and each.text)
        yield LlmResponse(content=Content.of_text(said, role="model"))


async def work() -> str:
    """Take a while."""
    await asyncio.sleep(0.4)
    return "done"


async def answer(turn: Turn) -> str:
    """The answer of a turn; "" where its agent was lost too often."""
    try:
        return (await turn).text
    except AgentLostError:
        return ""


async def steer(rt: Runtime, number: int) -> bool:
    """Give a message to a turn, and check what comes of it. Returns whether the turn has read it."""
    session = f"s{number}"
    first = rt.run(user_id="ada", session_id=session, message="begin")
    await first.aio.started()
    await asyncio.sleep(0.1)
    second = rt.run(user_id="ada", session_id=session, message="more", run_config=STEER)
    answers = [await answer(first), await answer(second)]
    events = await asyncio.to_thread(stored, rt, session)
    said = Counter(event.text for event in events if event.author == "user")
    assert said == {"begin": 1, "more": 1}, events
    assert "more" in answers[1] or not answers[1], (answers, events)
    steered = await second.aio.steered()
    return steered is not None and steered.agent == "root"


async def steer_all(rt: Runtime, messages: int) -> int:
    """Returns how many were read by the turn that ran."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> bool:
        async with room:
            return await steer(rt, number)

    return sum(await asyncio.gather(*map(one, range(messages))))


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.usefixtures("local_ray")
def test_each_message_is_answered_once_whatever_is_killed(tmp_path: Path, tell: Tell) -> None:
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=Echo(), tools=[work]), app_name="steered") as rt:
        with Killer(rt, PAUSE_S, seed=1, cores=0.6) as killer:
            read = asyncio.run(steer_all(rt, MESSAGES))
        tell(
            f"{MESSAGES} messages, {read} read by the turn that ran, {killer.kills} processes killed: {killer.agents} of agents, "
            f"{killer.runners} Runners, {killer.sessions} Session actors"
        )
        assert rt.schedules.list() == []
        assert killer.kills > MESSAGES / 8

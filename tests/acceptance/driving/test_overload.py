"""As much waits as may: further turns are refused with the time to come again, and none that was taken is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors import LlmAgent
from actors.errors import OverloadedError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from runtime.settings import Settings
from tests.support.agents.conversation_tools import Gate
from tests.support.polling import until
from tests.support.runtimes import Deploy, stored


def agent(gate: Gate) -> LlmAgent:
    """Waits at the gate when it is told to."""
    return LlmAgent(
        name="root", model=PatternModel([("wait", {"call": "wait"}), ("tool:", "ok")], default="ok"), tools=[gate.tool()]
    )


def start(rt: Runtime, message: str, session: str = "s1", **options: Any) -> Turn:
    return rt.run(user_id="ada", session_id=session, message=message, **options)


def fill(rt: Runtime) -> list[Turn]:
    """Have one turn of the session run, and two wait."""
    running = start(rt, "wait")
    until(lambda: rt.turns.list("ada", "s1", "running"))
    waiting = [start(rt, "later", invocation_id=f"later-{number}") for number in range(2)]
    until(lambda: rt.statistics().runner.counts["waiting"] == 2)
    return [running, *waiting]


def test_a_full_line_refuses_turns_and_takes_them_when_there_is_room(deploy: Deploy, gate: Gate) -> None:
    with deploy(agent(gate), settings=Settings(max_waiting_session_turns=2)) as rt:
        taken = fill(rt)
        with pytest.raises(OverloadedError, match="session 's1' has 2 turns waiting, and max_waiting_session_turns") as refused:
            start(rt, "one more").result()
        assert 1 <= refused.value.retry_after_s <= 60
        # The next refusal is known before anything was sent.
        again = start(rt, "one more")
        assert isinstance(again._state.error, OverloadedError)
        with pytest.raises(OverloadedError, match="session 's1' has 2 turns waiting, and max_waiting_session_turns"):
            again.result()
        # Another session has a line of its own; a turn that may be there is asked for.
        assert start(rt, "hello", "s2").result().text == "ok"
        waiting = start(rt, "later", invocation_id="later-1")
        assert waiting._state.error is None
        gate.open()
        assert [turn.result().text for turn in [*taken, waiting]] == ["ok"] * 4
        # One that is there is joined. Two have left the line, so two more may come at once.
        assert start(rt, "later", invocation_id="later-0").result().text == "ok"
        assert [turn.result().text for turn in [start(rt, "one more"), start(rt, "one more")]] == ["ok"] * 2
        assert [event.text for event in stored(rt) if event.author == "user"] == [
            "wait",
            *["later"] * 2,
            *["one more"] * 2,
        ]


def test_a_map_waits_until_there_is_room(deploy: Deploy, gate: Gate) -> None:
    with deploy(agent(gate), settings=Settings(max_waiting_user_turns=4)) as rt:
        results = list(rt.map([f"input {number}" for number in range(12)], concurrency=12, name="many", user_id="ada"))
    assert [(result.error, result.output, result.attempts) for result in results] == [(None, "ok", 1)] * 12


async def test_more_lists_than_may_wait_are_refused_and_turns_do_not_wait_for_them(deploy: Deploy, gate: Gate) -> None:
    async with deploy(agent(gate), settings=Settings(max_waiting_requests=4)) as rt:
        await rt.run(user_id="ada", session_id="s1", message="hello")
        lists = [asyncio.ensure_future(rt.aio.sessions.list("ada")) for _ in range(500)]
        turn = await rt.run(user_id="ada", session_id="s1", message="hello")
        found = await asyncio.gather(*lists, return_exceptions=True)
        assert turn.text == "ok"
        refused = [each for each in found if isinstance(each, OverloadedError)]
        assert refused
        assert refused[0].retry_after_s >= 1
        answered = [each for each in found if not isinstance(each, BaseException)]
        assert len(answered) + len(refused) == 500
        assert {len(each) for each in answered} == {1}
        assert len(await rt.aio.sessions.list("ada")) == 1

"""A process that was suspended, not dead, wakes up after its turn was taken over: what it writes then is refused."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from actors import Content, Event, LlmAgent
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import new_event_id, now_s
from actors.messages.session import SessionKey
from actors.refs import SessionRef
from tests.support.machine.processes import stop
from tests.support.models.waiting_model import GatedModel
from tests.support.runtimes import Deploy, author_texts, stored

pytestmark = pytest.mark.usefixtures("local_ray")


async def take_over(session: SessionRef, key: SessionKey, invocation_id: str) -> None:
    """Take the turn over with a new epoch, and answer in the agent's place."""
    resumed = await session.ask(p.ResumeTurn(key=key, invocation_id=invocation_id, runner="another"))
    assert isinstance(resumed, p.TurnResumed)
    answer = Event(
        id=new_event_id(),
        invocation_id=invocation_id,
        author="root",
        timestamp=now_s(),
        content=Content.of_text("said in time", role="model"),
    )
    turn = p.TurnRef(key, invocation_id, resumed.epoch, generation=resumed.generation)
    await session.ask(p.Append(turn=turn, events=[encode(answer)], outcome=p.Finished(agent="root"), selected="root"))


def test_who_wakes_up_behind_the_end_of_its_turn_writes_nothing(tmp_path: Path) -> None:
    model = GatedModel(tmp_path, "said late")
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=model)) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        model.wait_until_called()
        zombie = rt.statistics().agents["root"].pid
        stop(zombie)
        try:
            rt._client.run(take_over(rt._client.session, SessionKey("test", "ada", "s1"), turn.invocation_id))
            assert author_texts(list(turn)) == [("root", "said in time")]
        finally:
            os.kill(zombie, signal.SIGCONT)
        model.release()
        while rt.statistics().runner.counts["running"]:
            pass
        assert author_texts(stored(rt)) == [("user", "go"), ("root", "said in time")]
        seen = rt.statistics().agents["root"]
        assert (seen.pid, seen.counts["runs"], seen.counts["events"]) == (zombie, 1, 0)
        following = rt.run(user_id="ada", session_id="s1", message="again")
        model.wait_until_called()
        model.release()
        assert following.result().text == "said late"

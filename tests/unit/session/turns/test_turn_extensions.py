"""A feature of its own, which counts the tool calls of users, keeps what it needs of each turn."""

from __future__ import annotations

from pathlib import Path

from actors.messages import protocol as p
from actors.refs import SessionRef
from actors.session.environment import SessionEnvironment
from runtime.engine.local import LocalLink
from tests.support.fixtures.session_fixture import KEY, TREE, SessionFixture
from tests.support.tool_calls import CountToolCalls, session_actor


async def counted(session: SessionFixture) -> int:
    reply = await session.ref.ask(CountToolCalls(app=KEY.app, user=KEY.user))
    return reply.calls


def with_feature(session: SessionFixture) -> SessionFixture:
    session.actor = session_actor(SessionEnvironment(session.store, TREE, clock=session.clock))
    session.ref = SessionRef(LocalLink(session.actor))
    return session


async def test_calls_of_open_paused_and_ended_turns_count_also_after_a_restart(tmp_path: Path) -> None:
    session = with_feature(SessionFixture(tmp_path))
    await session.open("e-1")
    await session.say(session.event("root", call="c1"), session.event("root", call="c2"))
    assert await counted(session) == 2
    await session.close("e-1")
    await session.open("e-2")
    await session.say(session.event("root", turn="e-2", call="c3"), turn="e-2")
    session = with_feature(await session.restarted())
    assert await counted(session) == 3
    await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-2", runner="other"))
    await session.say(session.event("root", turn="e-2", call="c4"), turn="e-2", epoch=2)
    session = with_feature(await session.restarted())
    # Its record has the first call, and its events have both.
    assert await counted(session) == 4
    await session.close("e-2", p.Paused(agent="root", call_ids=("c4",)), epoch=2)
    session = with_feature(await session.restarted())
    assert await counted(session) == 4


async def test_an_actor_without_the_feature_goes_on_with_turns_that_have_it(tmp_path: Path) -> None:
    session = with_feature(SessionFixture(tmp_path))
    await session.open("e-1")
    await session.say(session.event("root", call="c1"))
    session = await session.restarted()
    resumed = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="other"))
    assert isinstance(resumed, p.TurnResumed)
    await session.close("e-1", epoch=2)

"""A request to run a turn again from a step, which is sent again since its reply was lost."""

from __future__ import annotations

import msgspec
import pytest

from actors.messages import protocol as p
from actors.messages.codec import encode
from tests.support.fixtures.session_fixture import KEY, SessionFixture


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_one_that_is_sent_again_when_the_turn_has_ended_once_more_takes_nothing_back_twice(
    session: SessionFixture, is_restarted: bool
) -> None:
    await session.turn("e-1", "kept", "taken back")
    retry = p.RetryTurn(key=KEY, invocation_id="e-1", runner="runner", from_event="e-1-root-2", request="the request")
    resumed = await session.ref.retry_turn(retry)
    assert isinstance(resumed, p.TurnResumed)
    turn = p.TurnRef(KEY, "e-1", resumed.epoch, generation=resumed.generation)
    await session.ref.append(p.Append(turn=turn, events=[encode(session.event("root", "said again"))]))
    await session.ref.close_turn(p.CloseTurn(turn=turn, agent="root", outcome=p.Finished(agent="root")))
    if is_restarted:
        session = await session.restarted()
    assert await session.ref.retry_turn(retry) == p.NothingToResume()
    assert [text for _, _, text in await session.log()] == ["e-1?", "kept", "", "said again"]
    assert isinstance(await session.ref.retry_turn(msgspec.structs.replace(retry, request="another request")), p.TurnResumed)
    assert [text for _, _, text in await session.log()] == ["e-1?", "kept", ""]

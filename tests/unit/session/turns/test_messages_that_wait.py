"""Messages that wait for the turn that runs."""

from __future__ import annotations

from actors import RunConfig
from actors.layers.steering.messages import LeaveMessage
from actors.messages import protocol as p
from actors.messages.codec import encode
from tests.support.fixtures.session_fixture import KEY, SessionFixture


async def test_the_turn_that_a_message_has_begun_does_not_read_it_before_its_time_has_passed(session: SessionFixture) -> None:
    await session.open()
    event = encode(session.event("user", "more", turn="e-2"))
    await session.ref.ask(LeaveMessage(key=KEY, event=event, config=RunConfig()))
    await session.close()
    await session.ref.open_turn(p.OpenTurn(key=KEY, invocation_id="e-2", event=event, runner="runner"))
    assert (await session.ref.ask(p.ReadMessages(turn=session.turn_ref("e-2"), agent="root"))).messages == []

"""Notes of supervisors that come along with what their children store."""

from __future__ import annotations

from typing import Any

import pytest

from actors.errors import FencedError
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import Event, decode_event
from tests.support.fixtures.session_fixture import KEY, SessionFixture


def note(session: SessionFixture, run: int, **state: Any) -> tuple[p.Note, Event]:
    event = session.event("root", agent_state=state or {"child": "a"})
    return p.Note(run, encode(event)), event


async def authors(session: SessionFixture) -> list[str]:
    found = (await session.ref.ask(p.GetSessionRequest(key=KEY))).session
    assert found is not None
    events = [decode_event(stored.raw, stored.seq) for stored in found.events]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [event.author for event in events]


async def test_a_note_that_is_missing_is_stored_before_what_brings_it_and_once(session: SessionFixture) -> None:
    await session.open()
    brought, event = note(session, run=1)
    said = [encode(session.event("a", "one"))]
    append = p.Append(turn=session.turn_ref(run=2), events=said, notes=[brought])
    assert (await session.ref.ask(append)).first_seq == 3
    # Sent again, because the reply was lost; and the note that the supervisor sends itself.
    assert (await session.ref.ask(append)).first_seq == 3
    assert await session.say(event) == 2
    assert await session.say(session.event("a", "two"), notes=[brought]) == 4
    assert await authors(session) == ["user", "root", "a", "a"]


async def test_a_note_is_known_after_the_session_actor_was_restarted(session: SessionFixture) -> None:
    await session.open()
    brought, event = note(session, run=1)
    await session.say(event)
    again = await session.restarted()
    await again.say(again.event("a", "one"), notes=[brought])
    assert await authors(again) == ["user", "root", "a"]
    await again.ref.stop()


async def test_what_an_abandoned_supervisor_has_asked_for_writes_nothing(session: SessionFixture) -> None:
    await session.open()
    brought, _ = note(session, run=1)
    await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,)))
    with pytest.raises(FencedError):
        await session.say(session.event("a", "one"), notes=[brought])
    assert await authors(session) == ["user"]


async def test_giving_up_a_run_stores_the_note_of_its_beginning(session: SessionFixture) -> None:
    await session.open()
    brought, _ = note(session, run=1, iteration=1, child="a")
    for _ in range(2):
        progress = await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(2,), notes=[brought]))
        assert progress.agent_states == {"root": (2, {"iteration": 1, "child": "a"})}
    assert await authors(session) == ["user", "root"]


async def test_the_note_of_a_supervisor_that_is_given_up_too_is_not_stored(session: SessionFixture) -> None:
    await session.open()
    brought, _ = note(session, run=1)
    progress = await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,)))
    progress = await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(2,), notes=[brought]))
    assert progress.agent_states == {}
    assert await authors(session) == ["user"]

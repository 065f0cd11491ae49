"""Requests that are sent again, since the Session actor was lost with its reply, tell what the first one did."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.errors import ActorRestartsError, InvocationNotFoundError, SessionExistsError
from actors.interfaces.transport import EarlyReply
from actors.layers.rewinds import RewindRequest
from actors.messages import protocol as p
from actors.refs import SessionRef
from runtime.engine.local import LocalLink
from tests.support.fixtures.session_fixture import KEY, SessionFixture


class LostReply(LocalLink):
    """A link whose first message is handled by an actor that is lost before its reply comes, or before it handles the message."""

    def __init__(self, session: SessionFixture, *, handled: bool) -> None:
        super().__init__(session.actor)
        self._session = session
        self._is_handled = handled
        self.heir: SessionFixture | None = None

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        if self.heir is not None:
            return await super().send(raw, once=once, early=early)
        if self._is_handled:
            await super().send(raw, early=early)
        self.heir = await self._session.restarted()
        self._actor = self.heir.actor
        if once:
            raise ActorRestartsError("session", "it was lost")
        return await super().send(raw)


@pytest.mark.parametrize("handled", [True, False])
async def test_a_session_is_created_once(tmp_path: Path, handled: bool) -> None:
    link = LostReply(SessionFixture(tmp_path), handled=handled)
    ref = SessionRef(link)
    created = (await ref.ask(p.CreateSessionRequest(key=KEY, state={"a": 1, "user:u": 2}))).session
    assert created is not None
    assert (created.key, created.state) == (KEY, {"a": 1, "user:u": 2})
    with pytest.raises(SessionExistsError):
        await ref.ask(p.CreateSessionRequest(key=KEY, state={"a": 1}))
    await ref.stop()


@pytest.mark.parametrize("other", ["events", "state"])
async def test_a_session_that_was_there_with_other_things_in_it_is_not_taken_for_the_new_one(tmp_path: Path, other: str) -> None:
    session = SessionFixture(tmp_path)
    if other == "events":
        await session.turn("e-1", "one")
    else:
        await session.ref.ask(p.CreateSessionRequest(key=KEY, state={"a": 2}))
    ref = SessionRef(LostReply(session, handled=True))
    with pytest.raises(SessionExistsError):
        await ref.ask(p.CreateSessionRequest(key=KEY, state={"a": 1} if other == "state" else {}))
    await ref.stop()


@pytest.mark.parametrize("handled", [True, False])
async def test_a_session_is_rewound_once(tmp_path: Path, handled: bool) -> None:
    session = SessionFixture(tmp_path)
    await session.turn("e-1", "one")
    await session.turn("e-2", "two")
    link = LostReply(session, handled=handled)
    ref = SessionRef(link)
    await ref.ask(RewindRequest(key=KEY, invocation_id="e-2"))
    assert link.heir is not None
    assert [text for _, _, text in await link.heir.log()] == ["e-1?", "one", ""]
    with pytest.raises(InvocationNotFoundError):
        await ref.ask(RewindRequest(key=KEY, invocation_id="e-2"))
    await ref.stop()


async def test_a_turn_that_was_never_there_is_not_taken_for_one_that_was_rewound(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path)
    await session.turn("e-1", "one")
    await session.turn("e-2", "two")
    await session.ref.ask(RewindRequest(key=KEY, invocation_id="e-2"))
    ref = SessionRef(LostReply(session, handled=True))
    with pytest.raises(InvocationNotFoundError):
        await ref.ask(RewindRequest(key=KEY, invocation_id="e-x"))
    await ref.stop()

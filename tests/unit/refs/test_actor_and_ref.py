"""What every actor does with messages, and which errors its client raises; requests that are sent again after a loss."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.actor import Actor, Handlers
from actors.errors import (
    ActorRestartsError,
    InvocationNotFoundError,
    RaygroveError,
    SessionBusyError,
    SessionExistsError,
    TooLargeError,
)
from actors.interfaces.transport import EarlyReply
from actors.layers.memory import ForgetSession, RememberSession
from actors.layers.rewinds import RewindRequest
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.refs import Ref, SessionRef
from runtime.engine.local import LocalLink
from tests.support.fixtures.session_fixture import KEY, SessionFixture


class OwnError(RaygroveError):
    sentence = "own: {0}"


class Moody(Actor):
    """Answers each message in another way."""

    def handlers(self) -> Handlers:
        return {
            p.Stop: self.fine,
            p.Poll: self.refuses,
            p.GetStatistics: self.is_broken,
            p.GetTopology: self.raises_what_cannot_travel,
            p.Unsubscribe: self.replies_what_cannot_travel,
            p.DeleteSessionRequest: self.wants_to_exit,
            ForgetSession: self.is_not_cancelled,
            RememberSession: self.waits,
        }

    async def fine(self, _: p.Stop) -> p.Ack:
        return p.Ack()

    async def refuses(self, _: p.Poll) -> p.Ack:
        raise SessionBusyError("s1", "e-1")

    async def is_broken(self, _: p.GetStatistics) -> p.Ack:
        raise ZeroDivisionError("division by zero")

    async def raises_what_cannot_travel(self, _: p.GetTopology) -> p.Ack:
        raise OwnError(object)

    async def wants_to_exit(self, _: p.DeleteSessionRequest) -> p.Ack:
        raise SystemExit(1)

    async def is_not_cancelled(self, _: ForgetSession) -> p.Ack:
        raise asyncio.CancelledError

    async def waits(self, _: RememberSession) -> p.Ack:
        await asyncio.Event().wait()
        return p.Ack()

    async def replies_what_cannot_travel(self, _: p.Unsubscribe) -> p.ErrorReply:
        return p.ErrorReply(error="x", args=[object()])


@pytest.fixture
def moody() -> Ref:
    return Ref(LocalLink(Moody("moody")))


async def test_a_reply_comes_back(moody: Ref) -> None:
    assert await moody.ask(p.Stop()) == p.Ack()


async def test_an_error_of_ours_is_raised_where_it_was_caused(moody: Ref) -> None:
    with pytest.raises(SessionBusyError) as raised:
        await moody.ask(p.Poll(subscriber="d"))
    assert raised.value.args == ("s1", "e-1")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (p.GetStatistics(), ["moody failed on GetStatistics", "ZeroDivisionError", "division by zero"]),
        (p.GetTopology(), ["OwnError", "own: <class 'object'>"]),
        (p.Unsubscribe(subscriber="d"), ["cannot be sent"]),
        (p.DeleteSessionRequest(key=KEY), ["moody failed on DeleteSessionRequest", "SystemExit: 1"]),
        (ForgetSession(key=KEY), ["moody failed on ForgetSession", "CancelledError"]),
        (p.TellPartial(turn=p.TurnRef(KEY, "e", 1), events=[]), ["Invalid value 'TellPartial'"]),
    ],
)
async def test_whatever_goes_wrong_reaches_the_one_who_asked_and_stops_nobody(
    moody: Ref, message: p.Request[Any], words: list[str]
) -> None:
    with pytest.raises(RaygroveError) as raised:
        await moody.ask(message)
    for word in words:
        assert word in str(raised.value)
    assert await moody.ask(p.Stop()) == p.Ack()


async def test_who_is_really_cancelled_stops() -> None:
    asked = asyncio.create_task(Moody("moody").receive(encode(RememberSession(key=KEY))))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_what_is_too_large_is_not_sent() -> None:
    small = Ref(LocalLink(Moody("moody")), max_bytes=100)
    with pytest.raises(TooLargeError, match="RAYGROVE_MAX_MESSAGE_BYTES allows 100"):
        await small.ask(p.Poll(subscriber="d" * 200))
    assert await small.ask(p.Stop()) == p.Ack()


@pytest.mark.parametrize("raw", [b"", b"\xff", encode({"type": "NoSuchMessage"}), encode({"type": "Poll"}), encode([1])])
async def test_a_message_that_cannot_be_read_is_refused(raw: bytes) -> None:
    reply: Any = await Moody("moody").receive(raw)
    with pytest.raises(RaygroveError, match="a message for moody cannot be sent"):
        await Ref(_Fixed(reply)).ask(p.Stop())


async def test_a_reply_of_another_kind_is_an_error() -> None:
    with pytest.raises(RaygroveError, match=r"asked with Stop, got another reply back: .*News"):
        await Ref(_Fixed(encode(p.News()))).ask(p.Stop())


class _Fixed:
    """A link to an actor that always replies the same."""

    def __init__(self, reply: bytes) -> None:
        self._reply = reply

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        return self._reply


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

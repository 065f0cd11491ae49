"""What changes a session is refused while a turn of it is open, also by a Session actor that has the turn from the store."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.errors import TurnStateError
from actors.layers.forks import ForkSession
from actors.layers.listing.client import get_turn
from actors.layers.retries import RetryTurn
from actors.layers.rewinds import RewindRequest
from actors.messages import protocol as p
from actors.messages.codec import encode
from tests.support import inside
from tests.support.fixtures.separate_actors import Gate
from tests.support.fixtures.session_fixture import KEY, SessionFixture
from tests.unit.session.examples import Desk

REQUESTS: Mapping[str, Callable[[SessionFixture], p.Message]] = {
    "append": lambda session: p.AppendEventRequest(key=KEY, event=encode(session.event("user", "note"))),
    "cancel": lambda _: p.CancelTurn(key=KEY, invocation_id="e-p"),
    "delete": lambda _: p.DeleteSessionRequest(key=KEY),
    "fork": lambda _: ForkSession(key=KEY, invocation_id="e-0", fork="other"),
    "retry": lambda _: RetryTurn(key=KEY, invocation_id="e-f", runner="runner"),
    "rewind": lambda _: RewindRequest(key=KEY, invocation_id="e-0"),
}

ALSO_OF_LOST_TURNS = [(name, is_lost) for name in REQUESTS for is_lost in (False, True) if (name, is_lost) != ("delete", True)]
"""A session is deleted with a turn that is lost."""


@pytest.mark.parametrize(("name", "is_lost"), ALSO_OF_LOST_TURNS)
async def test_a_session_with_an_open_turn_is_not_changed_and_the_turn_goes_on(tmp_path: Path, name: str, is_lost: bool) -> None:
    desk = Desk(tmp_path)
    session = desk.session
    await session.turn("e-0", "zero")
    await session.open("e-f")
    await session.close("e-f", p.Failed(agent="root", error_code="E"))
    await paused(session)
    await session.open("e-1")
    desk = desk.heir() if is_lost else desk
    request, before = REQUESTS[name](session), desk.stored()
    reply = await desk.ask(request)
    assert isinstance(reply, p.ErrorReply)
    assert (reply.error, reply.args) == ("SessionBusyError", [KEY.session, "e-1"])
    assert desk.stored() == before
    ended = p.CloseTurn(turn=session.turn_ref("e-1"), agent="root", outcome=p.Finished(agent="root"))
    await desk.done(ended)
    await desk.done(request)
    await desk.session.ref.stop()


ALL_AT_ONCE = [name for name in REQUESTS if name != "cancel"]
"""Those that may be sent again while the first one is under way: a connection has broken."""


@pytest.mark.parametrize("name", ALL_AT_ONCE)
async def test_a_change_that_is_sent_again_waits_for_the_first_one(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path)
    await desk.session.turn("e-0", "zero")
    await desk.session.open("e-f")
    await desk.session.close("e-f", p.Failed(agent="root", error_code="E"))
    request = REQUESTS[name](desk.session)
    again = msgspec.structs.replace(request, again=True) if hasattr(request, "again") else request
    first, second = await asyncio.gather(desk.ask(request), desk.ask(again))
    assert not isinstance(first, p.ErrorReply)
    assert type(second) is type(first)
    await desk.session.ref.stop()


async def paused(session: SessionFixture) -> None:
    """The turn e-p waits for an answer to the call c1."""
    await session.open("e-p")
    call = msgspec.structs.replace(session.event("root", turn="e-p", call="c1"), long_running_tool_ids=("c1",))
    await session.say(call, turn="e-p")
    await session.close("e-p", p.Paused(agent="root", call_ids=("c1",)))


async def test_a_paused_turn_is_cancelled_that_is_being_forked(session: SessionFixture) -> None:
    await session.turn("e-0", "zero")
    await paused(session)
    fork, cancel = ForkSession(key=KEY, invocation_id="e-0", fork="other"), p.CancelTurn(key=KEY, invocation_id="e-p")
    await asyncio.gather(session.ref.ask(fork), session.ref.ask(cancel))
    turn = await get_turn(session.ref, KEY, "e-p")
    assert turn is not None
    assert turn.state == "cancelled"


async def test_an_answer_that_comes_while_its_turn_is_being_cancelled_is_refused(
    session: SessionFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await paused(session)
    gate, reads = Gate(), itertools.count()

    async def held(read: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        # The cancel reads the turn's record, and then its events.
        if next(reads) == 1:
            await gate.let_pass()
        return await read(*args)

    inside.around(monkeypatch, "read the store", held)
    cancelling = asyncio.create_task(session.ref.ask(p.CancelTurn(key=KEY, invocation_id="e-p")))
    await gate.reached.wait()
    answering = asyncio.create_task(session.answer("e-p", "c1", only_waiting=True))
    assert {(await get_turn(session.ref, KEY, "e-p")).state for _ in range(9)} <= {"paused", "waiting"}
    gate.open()
    await cancelling
    with pytest.raises(TurnStateError):
        await answering

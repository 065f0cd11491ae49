"""What a Session actor does for a Runner in the place of a lost one."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from actors.interfaces.stores import TurnRow
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from tests.support.fixtures.session_fixture import KEY, FailingStore, SessionFixture, settled

LOST, NEXT = "runner/1", "runner/2"


class SlowLists(FailingStore):
    """Lists open turns as they are when it is asked, and says so when it may."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_asked, self.may_reply = threading.Event(), threading.Event()

    def running(self, app: str) -> list[tuple[SessionKey, TurnRow]]:
        found = super().running(app)
        self.is_asked.set()
        self.may_reply.wait(20)
        return found


async def test_a_turn_is_lost_until_it_is_stored_that_it_is_resumed(tmp_path: Path) -> None:
    # Of two requests that recover turns neither may end before the other has stored that it goes on with them.
    session = SessionFixture(tmp_path, store=SlowLists)
    assert isinstance(session.store, SlowLists)
    await session.open("e-1", runner=LOST)
    await session.ref.ask(p.AnnounceRunner(runner=NEXT, number=0))
    listing = asyncio.create_task(session.ref.ask(p.ListOpenTurns(app=KEY.app, runner=NEXT)))
    await asyncio.to_thread(session.store.is_asked.wait, 20)
    resuming = asyncio.create_task(session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner=NEXT)))
    await settled()
    session.store.may_reply.set()
    reply = await listing
    assert isinstance(reply, p.OpenTurnsReply)
    assert list(reply.turns) == [(KEY, "e-1")]
    assert isinstance(await resuming, p.TurnResumed)
    await session.ref.stop()

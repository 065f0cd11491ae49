"""Whenever a driver joins a turn, and whatever is lost, it gets every answer under way from its beginning, each word once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors import Content
from actors.agent.event_writer import PartialEvents
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import decode_event
from actors.refs import SessionRef
from actors.rules.event_buffer import EventBuffer
from runtime.driver.turns.state import LoopSignal, TurnState
from runtime.driver.turns.subscriber import Subscriber
from tests.support import inside
from tests.support.fixtures.direct_fixture import until
from tests.support.fixtures.restarting_link import Restarting
from tests.support.fixtures.session_fixture import KEY, SessionFixture
from tests.support.machine.folders import quick_folder
from tests.support.tries import tries

SAY, COMPLETE, JOIN, JOIN_AGAIN, READ_TOO, LISTEN = "say", "complete", "join", "join again", "read too", "listen"
LOSE_SESSION, LOSE_AGENT = "lose session", "lose agent"

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just(SAY), st.sampled_from(["a", "bc", " d "])),
        st.tuples(st.sampled_from([COMPLETE, JOIN, JOIN, JOIN_AGAIN, READ_TOO, LISTEN, LOSE_SESSION, LOSE_AGENT]), st.just("")),
    ),
    max_size=12,
)


class Reader(NamedTuple):
    """A reader of a driver's turn: what it has heard, and when it came: after so many answers, in which attempt."""

    turn: TurnState
    buffer: EventBuffer
    answers: int
    attempt: int
    heard: list[p.StoredEvent]


class Conversation:
    """A turn in which an agent streams answers while drivers come, and actors are lost."""

    def __init__(self, desk: SessionFixture) -> None:
        self.desk = desk
        self.link = Restarting(desk.actor)
        self.session = SessionRef(self.link)
        self.ref = desk.turn_ref(run=1)
        self.partials = PartialEvents(self.session, self.ref)
        self.answers: list[str] = []
        self.under_way = ""
        self.attempts: list[int] = [1]
        self.is_silent, self.known_attempt = False, 1
        self.silent: set[int] = set()
        self.readers: list[Reader] = []
        self.subscribers: list[Subscriber] = []

    async def do(self, step: str, text: str) -> None:
        await self._do(step, text)
        async with asyncio.timeout(20):
            for reader in self.readers:
                while not self.has_all(reader):
                    # Of a turn that is over, waiting returns at once.
                    assert not reader.turn.is_over, reader.turn.error
                    reader.heard.extend(await reader.turn.wait_for_events_async(reader.buffer, LoopSignal()))

    def has_all(self, reader: Reader) -> bool:
        """True when a reader has what it can have of the answer under way."""
        heard_one_attempt = self.heard_one_attempt(reader, len(self.answers))
        told, streamed = pieces(reader.heard)
        return len(told) == len(self.answers) and (self.is_silent or not heard_one_attempt or streamed == self.under_way)

    def has_heard(self, turn: TurnState) -> bool:
        """True when a driver has what the last attempt has said, if it can."""
        if self.is_silent or self.known_attempt != self.attempts[-1]:
            return True
        reader = turn.open_reader()
        told, streamed = pieces(reader.take_events())
        turn.close_reader(reader)
        return len(told) == len(self.answers) and streamed == self.under_way

    def heard_one_attempt(self, reader: Reader, answer: int) -> bool:
        """True when no attempt at an answer was lost since a reader came."""
        return self.attempts[answer] == (reader.attempt if answer == reader.answers else 1)

    async def _do(self, step: str, text: str) -> None:
        if step == SAY:
            self.is_silent, self.known_attempt = False, self.attempts[-1]
            self.under_way += text
            event = self.desk.event("root", text)
            await self.partials.send(encode(msgspec.structs.replace(event, partial=True)))
            answer = self.partials._answer
            assert answer is not None
            await until(lambda: answer._sender.done() or (answer._woken is not None and not answer._woken.done()))
        elif step == COMPLETE and self.under_way:
            await self.complete()
        elif step == JOIN:
            await self.join()
        elif step == JOIN_AGAIN:
            await self.subscribe()
        elif step == READ_TOO and self.readers:
            # Its driver learns that an attempt was lost when it hears the next one.
            turn = self.readers[-1].turn
            await until(lambda: self.has_heard(turn))
            self.readers.append(Reader(turn, turn.open_reader(), len(self.answers), self.known_attempt, []))
        elif step == LISTEN:
            # Drivers subscribe again once they have noticed that the Session actor was lost.
            followed = self.desk.actor._subscriptions._of_turn
            await until(lambda: all(each.name in followed.get((KEY, "e-1"), {}) for each in self.subscribers))
        elif step == LOSE_SESSION:
            # An agent that says no more than its complete event does not learn of it.
            self.is_silent = self.is_silent or bool(self.under_way)
            self.link.is_lost()
            self.desk = await self.desk.restarted()
            self.link.is_back(self.desk.actor)
        elif step == LOSE_AGENT:
            await self.session.ask(p.AbandonRuns(turn=self.desk.turn_ref(), lost=(self.ref.run,)))
            self.ref = msgspec.structs.replace(self.ref, run=self.ref.run + 1)
            self.partials = PartialEvents(self.session, self.ref)
            self.under_way = ""
            self.is_silent = False
            self.attempts[-1] += 1

    async def complete(self) -> None:
        await self.partials.flush()
        event = self.desk.event("root", self.under_way)
        await self.session.ask(p.Append(turn=self.ref, events=[encode(event)]))
        if self.is_silent:
            self.silent.add(len(self.answers))
        self.is_silent, self.known_attempt = False, 1
        self.answers.append(self.under_way)
        self.under_way = ""
        self.attempts.append(1)

    async def join(self) -> None:
        turn = TurnState(KEY, "e-1")
        subscriber = Subscriber(self.session, f"driver-{len(self.subscribers)}", is_permanent=False)
        self.subscribers.append(subscriber)
        subscriber.add(turn)
        self.readers.append(Reader(turn, turn.open_reader(), len(self.answers), self.attempts[-1], []))
        await self.subscribe()
        turn.mark_started("")

    async def subscribe(self) -> None:
        await self.session.subscribe(p.Subscribe(subscriber=self.subscribers[-1].name, key=KEY, invocation_id="e-1"))

    async def end(self) -> None:
        if self.under_way:
            await self.complete()
        await self.session.ask(p.CloseTurn(turn=self.desk.turn_ref(), agent="root", outcome=p.Finished(agent="root")))
        for reader in self.readers:
            await reader.turn.wait_for_end_async()
        for subscriber in self.subscribers:
            await subscriber.close(RuntimeError("over"))
        await self.desk.ref.stop()


def pieces(events: list[p.StoredEvent]) -> tuple[list[tuple[str, str]], str]:
    """For each complete event the text of its partials, and its own; and the text of the partials after them."""
    found, streamed = [], ""
    for stored in events:
        event = decode_event(stored.raw, stored.seq)
        content = event.content or Content()
        text = "".join(part.text or "" for part in content.parts)
        if stored.seq:
            found.append((streamed, text))
            streamed = ""
        else:
            streamed += text
    return found, streamed


async def talk(steps: list[tuple[str, str]]) -> None:
    with quick_folder() as folder:
        desk = SessionFixture(Path(folder))
        await desk.open("e-1")
        conversation = Conversation(desk)
        for step, text in [(JOIN, ""), *steps]:
            await conversation.do(step, text)
        await conversation.end()
        for reader in conversation.readers:
            told, _ = pieces(reader.heard + reader.buffer.take_events())
            assert [text for _, text in told] == conversation.answers
            for number, (streamed, text) in enumerate(told):
                if number < reader.answers:
                    # Complete before the reader came.
                    assert streamed in ("", text)
                elif conversation.heard_one_attempt(reader, number):
                    assert streamed == text or (number in conversation.silent and text.startswith(streamed))


@settings(max_examples=tries(25), deadline=None)
@given(STEPS)
@example([(SAY, "a"), (COMPLETE, ""), (SAY, "bc"), (JOIN_AGAIN, ""), (SAY, "a")])
@example([(SAY, "a"), (JOIN, ""), (SAY, "bc"), (LOSE_SESSION, ""), (SAY, " d"), (JOIN, ""), (SAY, "a")])
@example([(SAY, "a"), (LOSE_AGENT, ""), (JOIN, ""), (SAY, "bc"), (READ_TOO, ""), (JOIN, ""), (SAY, "a")])
@example([(SAY, "a"), (LOSE_AGENT, ""), (LOSE_SESSION, ""), (LISTEN, ""), (SAY, "bc"), (READ_TOO, ""), (SAY, "a")])
def test_a_reader_gets_every_answer_under_way_from_its_beginning_each_word_once(steps: list[tuple[str, str]]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        inside.change(patched, "subscriptions", LINGER_S=0.0)
        asyncio.run(talk(steps))

"""An agent begins while the user's message is being stored, and nothing of it is left when that cannot be stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from actors import Content, LlmAgent, LlmRequest, LlmResponse
from actors.errors import ActorRestartsError, StoreError
from actors.messages import protocol as p
from actors.refs.session import SessionRef
from actors.testing import ScriptedModel
from runtime.engine.local_agents import LocalLink
from tests.support.fixtures.direct_fixture import until
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.session_fixture import KEY, HeldCommits, settled

Build = Callable[..., RunnerFixture]


async def test_the_model_is_asked_before_the_message_is_on_disk_and_its_answer_is_stored_behind_it(build: Build) -> None:
    model = ScriptedModel(["one", "two"])
    fixture = build(LlmAgent(name="root", model=model))
    await fixture.run()
    held = HeldCommits(fixture.store)
    starting = asyncio.create_task(fixture.start(turn="held"))
    await until(lambda: len(model.requests) == 2)
    assert not starting.done()
    held.let_go()
    assert await starting == "held"
    events, outcome = await fixture.end("held")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["two"]
    assert [event.text for event in await fixture.log()] == ["hi", "one", "hi", "two"]


async def test_an_agent_that_has_to_read_the_log_reads_what_is_before_the_message_meanwhile(build: Build) -> None:
    model = ScriptedModel(["one", "two"])
    fixture = build(LlmAgent(name="root", model=model))
    await fixture.run("first")
    # Another actor of the agent, which knows nothing of the session.
    fixture.directory._links.clear()
    held = HeldCommits(fixture.store)
    starting = asyncio.create_task(fixture.start("second", turn="held"))
    await until(lambda: len(model.requests) == 2)
    assert not starting.done()
    held.let_go()
    await starting
    assert isinstance((await fixture.end("held"))[1], p.Finished)
    assert [content.text for content in model.requests[1].contents] == ["first", "one", "second"]


async def test_nothing_is_left_of_a_turn_whose_message_cannot_be_stored(build: Build) -> None:
    model = ScriptedModel(["one", "lost", "kept"])
    fixture = build(LlmAgent(name="root", model=model))
    await fixture.run()
    held = HeldCommits(fixture.store)
    starting = asyncio.create_task(fixture.start("lost", turn="held"))
    await until(lambda: len(model.requests) == 2)
    fixture.store.failures = 10
    held.let_go()
    with pytest.raises(StoreError, match="disk is full"):
        await starting
    fixture.store.failures = 0
    async with asyncio.timeout(20):
        # Nothing tells that a turn is given up.
        while (await fixture.runner.statistics()).counts["running"]:
            await settled()
    events, outcome = await fixture.run("again")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["kept"]
    assert [event.text for event in await fixture.log()] == ["hi", "one", "again", "kept"]
    assert [content.text for content in model.requests[2].contents] == ["hi", "one", "again"]


class Thinking:
    """A model that answers once, and then thinks until it is cancelled."""

    def __init__(self) -> None:
        self.calls = 0
        self.cancelled = 0

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.calls += 1
        if self.calls > 1:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        yield LlmResponse(content=Content.of_text("one", "model"))


async def test_an_agent_that_works_on_a_message_that_cannot_be_stored_is_stopped(build: Build) -> None:
    model = Thinking()
    fixture = build(LlmAgent(name="root", model=model))
    await fixture.run()
    held = HeldCommits(fixture.store)
    starting = asyncio.create_task(fixture.start("lost", turn="held"))
    await until(lambda: model.calls == 2)
    fixture.store.failures = 10
    held.let_go()
    with pytest.raises(StoreError, match="disk is full"):
        await starting
    for _ in range(100):
        await settled()
    assert model.cancelled == 1


class LostWhileStoring(SessionRef):
    """A client of a Session actor that is lost while it stores a message, and started again.

    Attributes:
        epochs: in which turns were to begin.
        is_back: it has been started again.
    """

    def __init__(self, link: LocalLink) -> None:
        super().__init__(link)
        self.epochs: list[int] = []
        self.is_back = asyncio.Event()

    async def open_turn(
        self, message: p.OpenTurn, early: Callable[[p.EarlyOpenTurnReply], None] | None = None
    ) -> p.OpenTurnReply:
        self.epochs.append(message.epoch)
        if len(self.epochs) == 1:
            assert early is not None
            early(p.TurnBegun(epoch=message.epoch, seq=1, generation="", state=b"\x80"))
            await self.is_back.wait()
            raise ActorRestartsError("session", "it was lost")
        return await super().open_turn(message, early)


def losing(fixture: RunnerFixture) -> LostWhileStoring:
    """Give the fixture a Runner whose Session actor is lost."""
    session = LostWhileStoring(fixture._session_link)
    fixture.use(session)
    return session


async def test_a_turn_that_was_lost_while_it_was_stored_begins_again_in_another_epoch(build: Build) -> None:
    model = ScriptedModel(["lost", "kept"])
    fixture = build(LlmAgent(name="root", model=model))
    session = losing(fixture)
    starting = asyncio.create_task(fixture.start(turn="e-1"))
    await until(lambda: model.requests)
    session.is_back.set()
    await starting
    events, outcome = await fixture.end("e-1")
    assert isinstance(outcome, p.Finished)
    assert session.epochs == [1, 2]
    assert [event.text for event in events] == ["kept"]
    assert [event.text for event in await fixture.log()] == ["hi", "kept"]


class Alone:
    """A model that thinks until it is cancelled, which takes a while, and then answers.

    Attributes:
        calls: how many there were.
        most: of them at the same time.
    """

    def __init__(self) -> None:
        self.calls = self.most = self._running = 0

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.calls += 1
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            if self.calls == 1:
                await asyncio.Event().wait()
        finally:
            await settled()
            self._running -= 1
        yield LlmResponse(content=Content.of_text("kept", "model"))


async def test_it_begins_when_what_has_begun_before_is_stopped(build: Build) -> None:
    model = Alone()
    fixture = build(LlmAgent(name="root", model=model))
    session = losing(fixture)
    starting = asyncio.create_task(fixture.start(turn="e-1"))
    await until(lambda: model.calls)
    session.is_back.set()
    await starting
    assert isinstance((await fixture.end("e-1"))[1], p.Finished)
    assert (model.calls, model.most) == (2, 1)


async def test_so_it_does_when_another_request_for_it_is_first_at_the_next_session_actor(build: Build) -> None:
    model = ScriptedModel(["lost", "kept"])
    fixture = build(LlmAgent(name="root", model=model))
    session = losing(fixture)
    starting = asyncio.create_task(fixture.start(turn="e-1", repeatable=True, event_id="m-1"))
    await until(lambda: model.requests)
    await fixture.start(turn="e-1", repeatable=True, event_id="m-2", subscriber="other")
    session.is_back.set()
    await starting
    async with asyncio.timeout(10):
        events, outcome = await fixture.end("other")
    assert isinstance(outcome, p.Finished)
    assert session.epochs == [1, 2, 3]
    assert [event.text for event in events] == ["kept"]


async def test_one_that_was_cancelled_meanwhile_stays_so(build: Build) -> None:
    model = ScriptedModel(["lost", "kept"])
    fixture = build(LlmAgent(name="root", model=model))
    session = losing(fixture)
    starting = asyncio.create_task(fixture.start(turn="e-1"))
    await until(lambda: len(session.epochs))
    cancelling = asyncio.create_task(fixture.runner.cancel_turn(p.CancelTurn(key=KEY, invocation_id="e-1")))
    await asyncio.sleep(0.05)
    session.is_back.set()
    await starting
    await cancelling
    events, outcome = await fixture.end("e-1")
    assert isinstance(outcome, p.Cancelled)
    assert events == []
    assert session.epochs == [1, 2]


async def test_a_request_that_is_repeated_meanwhile_waits_for_the_message_too(build: Build) -> None:
    model = ScriptedModel(["one", "two", "three"])
    fixture = build(LlmAgent(name="root", model=model))
    await fixture.run()
    held = HeldCommits(fixture.store)
    starting = asyncio.create_task(fixture.start(turn="held", event_id="m-1"))
    await until(lambda: len(model.requests) == 2)
    repeated = asyncio.create_task(fixture.start(turn="held", event_id="m-1", repeatable=True))
    await asyncio.sleep(0.05)
    assert not repeated.done()
    held.let_go()
    assert [await starting, await repeated] == ["held", "held"]
    assert isinstance((await fixture.end("held"))[1], p.Finished)
    assert [event.text for event in await fixture.log()] == ["hi", "one", "hi", "two"]


class Unsure(SessionRef):
    """A client of a Session actor that is told of the first message that it cannot be stored, and is lost. The store has it.

    Attributes:
        is_resumed: the Runner has asked for a turn that is open.
    """

    def __init__(self, fixture: RunnerFixture, has_begun: Callable[[], bool]) -> None:
        super().__init__(fixture._session_link)
        self.is_resumed = asyncio.Event()
        self._fixture = fixture
        self._has_begun = has_begun
        self._is_first = True

    async def open_turn(
        self, message: p.OpenTurn, early: Callable[[p.EarlyOpenTurnReply], None] | None = None
    ) -> p.OpenTurnReply:
        opened = await super().open_turn(message)
        if self._is_first:
            self._is_first = False
            assert early is not None
            assert isinstance(opened, p.TurnBegun)
            early(opened)
            await until(self._has_begun)
            await self._fixture.restart_session()
            raise StoreError("the connection broke")
        return opened

    async def resume_turn(self, message: p.ResumeTurn) -> p.ResumeTurnReply:
        reply = await super().resume_turn(message)
        self.is_resumed.set()
        return reply


class SlowAtFirst:
    """A model whose first calls think until they are cancelled, which takes a while. All others answer at once."""

    def __init__(self, slow: int = 1) -> None:
        self._slow = slow
        self.calls = 0
        self.is_cancelled = False
        self.may_end = asyncio.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.calls += 1
        if self.calls <= self._slow:
            try:
                await asyncio.Event().wait()
            finally:
                self.is_cancelled = True
                await self.may_end.wait()
        yield LlmResponse(content=Content.of_text("one", "model"))


async def test_a_turn_that_was_stored_although_the_store_has_failed_goes_on(build: Build) -> None:
    model = SlowAtFirst()
    fixture = build(LlmAgent(name="root", model=model))
    session = Unsure(fixture, lambda: model.calls == 1)
    model.may_end = session.is_resumed
    fixture.use(session)
    with pytest.raises(StoreError, match="the connection broke"):
        await fixture.start(turn="e-1", repeatable=True, event_id="m-1")
    await session.is_resumed.wait()
    await fixture.session.subscribe(p.Subscribe(key=KEY, subscriber="other", invocation_id="e-1"))
    async with asyncio.timeout(10):
        events, outcome = await fixture.end("other")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["one"]


async def test_it_ends_if_it_was_cancelled(build: Build) -> None:
    model = SlowAtFirst(slow=2)
    fixture = build(LlmAgent(name="root", model=model))
    session = Unsure(fixture, lambda: model.is_cancelled)
    model.may_end = session.is_resumed
    fixture.use(session)
    starting = asyncio.create_task(fixture.start(turn="e-1", repeatable=True, event_id="m-1"))
    await until(lambda: model.calls == 1)
    cancelling = asyncio.create_task(fixture.runner.cancel_turn(p.CancelTurn(key=KEY, invocation_id="e-1")))
    with pytest.raises(StoreError, match="the connection broke"):
        await starting
    await cancelling
    await fixture.start(turn="e-1", repeatable=True, event_id="m-1", subscriber="other")
    async with asyncio.timeout(10):
        assert isinstance((await fixture.end("other"))[1], p.Cancelled)

"""Several Runners and several Session actors: which of them gets a message, and how the turns of a lost Runner go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors import Content, CustomAgent, Event, InvocationContext
from actors.actor import Actor
from actors.agent.environment import AgentEnvironment
from actors.errors import ActorLostError, RaygroveError
from actors.interfaces.transport import EarlyReply
from actors.layers.interceptors import INTERCEPTORS
from actors.layers.placing.client import ShardedRunnerRef, ShardedSessionRef, runner_client, stores_client
from actors.layers.services import session_actor
from actors.layers.toolsets import OpenToolsets
from actors.layers.trees.tree import AgentTree
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import decode_event
from actors.messages.session import SessionKey, Shard
from actors.refs import RunnerRef, SessionRef
from actors.rules.sharding import all_shards
from actors.runner.actor import RunnerActor
from actors.runner.environment import RunnerEnvironment
from actors.session.environment import SessionEnvironment
from runtime.engine.local import LocalDirectory, LocalLink
from runtime.models.registry import resolve
from runtime.stores.artifacts import FsspecArtifactStore
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.sharded_runtimes import one_session_per_shard

KEYS = [SessionKey("app", "ada", session) for session in one_session_per_shard("app", "ada", 2)]


class Waits(CustomAgent):
    """Says when it is there, and goes on when it may."""

    there: Any
    may: Any

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        self.there.release()
        await self.may.wait()
        yield Event(content=Content.of_text("done", "model"))


class TwoRunners:
    """Two Runners over one Session actor."""

    def __init__(self, folder: Path) -> None:
        self.there, self.may = asyncio.Semaphore(0), asyncio.Event()
        self.tree = AgentTree(Waits(name="root", there=self.there, may=self.may))
        self.artifacts = FsspecArtifactStore(f"file://{folder}/artifacts")
        self.session = SessionRef(
            LocalLink(session_actor(SessionEnvironment(SqlSessionStore(f"sqlite:///{folder}/s.db"), self.tree.topology)))
        )
        self.runners = [self.build(shard) for shard in all_shards(2)]
        self.gone: list[Actor] = []
        self.ref = runner_client([RunnerRef(LocalLink(runner)) for runner in self.runners])

    def build(self, shard: Shard) -> RunnerActor:
        directory = LocalDirectory(self.tree)
        environment = RunnerEnvironment(self.session, directory, self.artifacts)
        runner = RunnerActor(environment, f"runner-{shard.index}", "app", shard)
        directory.environment = AgentEnvironment(
            self.session,
            RunnerRef(LocalLink(runner)),
            self.artifacts,
            resolve,
            toolsets=OpenToolsets(),
            interceptors=INTERCEPTORS,
        )
        return runner

    async def lose(self, index: int) -> None:
        """A Runner's process is lost, and started again."""
        self.gone.append(self.runners[index])
        self.runners[index] = self.build(Shard(index, 2))
        await self.runners[index].receive(encode(p.RecoverTurns()))

    async def running(self) -> list[int]:
        return [(await RunnerRef(LocalLink(runner)).statistics()).counts["running"] for runner in self.runners]

    async def close(self) -> None:
        for runner in (*self.runners, *self.gone):
            await runner.receive(encode(p.Stop()))
        await self.session.stop()


async def test_of_two_runners_the_one_that_was_lost_takes_up_its_own_turns_and_no_others(tmp_path: Path) -> None:
    two = TwoRunners(tmp_path)
    for key in KEYS:
        start = p.StartTurn(key=key, invocation_id="e-1", content=Content.of_text("go"), auto_create=True, subscriber=key.session)
        await two.ref.start_turn(start)
        await two.there.acquire()
    assert await two.running() == [1, 1]
    await two.lose(0)
    await two.there.acquire()
    assert await two.running() == [1, 1]
    # The turn of the lost Runner was resumed once, the other one was not.
    for key, epoch in zip(KEYS, (2, 1), strict=True):
        generation = (await two.session.ask(p.Fetch(key=key))).generation
        running = p.TurnRef(key, "e-1", epoch, generation=generation)
        resume = p.ResumeTurn(key=key, invocation_id="e-1", runner="?", running=running)
        assert await two.session.ask(resume) == p.Ack()
    two.may.set()
    for key in KEYS:
        assert await said(two.session, key) == ["done"]
    await two.close()


async def said(session: SessionRef, key: SessionKey) -> list[str]:
    """What a turn has said, when it has ended."""
    texts: list[str] = []
    ack = 0
    while True:
        news = await session.ask(p.Poll(subscriber=key.session, ack=ack))
        ack = news.number
        for turn in news.turns:
            texts += [decode_event(stored.raw, stored.seq).text for stored in turn.events]
            if turn.outcome is not None:
                assert isinstance(turn.outcome, p.Finished)
                return texts


class Recorder:
    """A link that notes what is sent."""

    def __init__(self, number: int, reply: p.Message | Exception) -> None:
        self.number = number
        self.reply = reply
        self.sent: list[str] = []

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        self.sent.append(raw[raw.index(b"type") + 5 :][:20].decode("latin-1"))
        if isinstance(self.reply, Exception):
            raise self.reply
        return encode(self.reply)


def recorders(reply: p.Message) -> list[Recorder]:
    return [Recorder(number, reply) for number in range(2)]


async def test_what_is_about_a_session_goes_to_its_own_and_what_is_about_all_to_each() -> None:
    links = recorders(p.Ack())
    session = ShardedSessionRef([SessionRef(link) for link in links])
    for key, link in zip(KEYS, links, strict=True):
        await session.ask(p.DeleteSessionRequest(key=key))
        await session.ask(p.CloseTurn(turn=p.TurnRef(key, "e", 1), agent="root", outcome=p.Finished()))
        assert session.of(key)._link is link
        assert len(link.sent) == 2
    await session.stop()
    assert [len(link.sent) for link in links] == [3, 3]
    with pytest.raises(RaygroveError, match="Poll is for one actor of several"):
        await session.ask(p.Poll(subscriber="driver"))
    with pytest.raises(RaygroveError, match="Unsubscribe is for one actor of several"):
        await session.ask(p.Unsubscribe(subscriber="driver"))
    runners = ShardedRunnerRef([RunnerRef(link) for link in links])
    await runners.ask(p.CancelTurn(key=KEYS[1], invocation_id="e"))
    assert [len(link.sent) for link in links] == [3, 4]


async def test_all_are_stopped_although_one_is_gone() -> None:
    links = recorders(p.Ack())
    links[0].reply = ActorLostError("Session actor 0", "it died")
    with pytest.raises(ActorLostError):
        await ShardedSessionRef([SessionRef(link) for link in links]).stop()
    with pytest.raises(ActorLostError):
        await ShardedRunnerRef([RunnerRef(link) for link in links]).stop()
    assert [len(link.sent) for link in links] == [2, 2]


def test_where_there_is_one_its_plain_client_is_used() -> None:
    session, runner = SessionRef(Recorder(0, p.Ack())), RunnerRef(Recorder(0, p.Ack()))
    assert stores_client([session], 1) is session
    assert runner_client([runner]) is runner
    assert session.of(KEYS[0]) is session
    assert session.shards == (session,)

"""A local engine whose actors can be lost at any message, as processes are: replies not yet sent are never sent.

It loses them at exact messages, so that each can be tried; `tests/chaos` kills real processes at random times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from actors import BaseAgent, Flow
from actors.actor import Actor
from actors.agent.actor import AgentActor
from actors.agent.environment import AgentEnvironment
from actors.errors import ActorLostError, ActorRestartsError
from actors.interfaces.telemetry import NO_TELEMETRY, Telemetry
from actors.interfaces.transport import EarlyReply, Link
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef
from actors.runner.actor import RunnerActor
from actors.runner.environment import RunnerEnvironment
from actors.session.actor import SessionActor
from actors.session.environment import SessionEnvironment
from actors.testing import ManualClock
from runtime import Runtime
from runtime.engine.deployment import Deployment
from runtime.engine.local import LocalEngine
from runtime.engine.store_urls import open_artifact_store, open_session_store
from runtime.models.registry import resolve
from tests.support.runtimes import Deploy

Victim = Literal["sender", "receiver", "agents", "runner", "session", "runner and session"]

_decoder: msgspec.msgpack.Decoder[p.Message] = msgspec.msgpack.Decoder(p.AnyMessage)

COUNTED = (
    p.StartTurn,
    p.OpenTurn,
    p.Invoke,
    p.RunChild,
    p.Append,
    p.CloseTurn,
    p.Fetch,
    p.TakeLlmCall,
    p.AbandonRuns,
    p.ResumeTurn,
    p.RecoverTurn,
)
"""Messages before and after which an actor may be lost."""


class Loss(msgspec.Struct, frozen=True):
    """Which actors are lost at which message, counted from 0 as sent: before it arrives, or before its reply does.

    With `of_decisions` only messages that store a supervisor's decision count.
    """

    at: int
    who: Victim
    before: bool
    of_decisions: bool = False


class Process:
    """An actor, and whether it lives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.work: set[asyncio.Task[bytes]] = set()
        self.actor: Actor

    @property
    def is_dead(self) -> bool:
        return self.died.done()


Meddler = Callable[[Process, p.Message, bool], Awaitable[None]]
"""Takes a message's sender, the message, and whether the message was handled."""


class LossyLink:
    """A way from one process to another."""

    def __init__(self, engine: LossyEngine, sender: Process | None, find: Callable[[], Process], *, restarts: bool) -> None:
        self._engine = engine
        self._sender = sender
        self._find = find
        self._restarts = restarts

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        while True:
            await self._lives()
            receiver = self._find()
            if not receiver.is_dead:
                number = self._engine.number(raw)
                await self._engine.strike(number, self._sender, receiver, before=True)
                await self._engine.meddle(self._sender, raw, handled=False)
                await self._lives()
            if not receiver.is_dead:
                work = asyncio.create_task(receiver.actor.receive(raw))
                receiver.work.add(work)
                either: list[asyncio.Future[Any]] = [work, receiver.died]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    receiver.work.discard(work)
                    await self._engine.strike(number, self._sender, receiver, before=False)
                    await self._engine.meddle(self._sender, raw, handled=True)
                    await self._lives()
                    if not receiver.is_dead:
                        return work.result()
            if not self._restarts:
                raise ActorLostError(receiver.name, "it was lost")
            if once:
                raise ActorRestartsError(receiver.name, "it was lost")
            await self._engine.is_back(self._find)

    async def _lives(self) -> None:
        """A dead sender never sends, and never gets a reply."""
        if self._sender is not None and self._sender.is_dead:
            await self._engine.over.wait()
            raise ActorLostError(self._sender.name, "it was lost")


class LossyDirectory:
    """Makes agents' actors live."""

    def __init__(self, engine: LossyEngine, runner: Process) -> None:
        self.obstacles: Mapping[str, tuple[str, str]] = {}
        self._engine = engine
        self._runner = runner
        self.links: dict[str, tuple[LossyLink, Process]] = {}

    async def link(self, agent: str, key: SessionKey) -> Link:
        if agent not in self.links:
            process = self._engine.agent(agent)
            self.links[agent] = (LossyLink(self._engine, self._runner, lambda: process, restarts=False), process)
        return self.links[agent][0]

    def drop_link(self, agent: str, link: Link) -> None:
        if agent in self.links and self.links[agent][0] is link:
            self._engine.cut(self.links.pop(agent)[1])

    def live(self) -> Sequence[tuple[str, Link]]:
        return [(agent, link) for agent, (link, _) in self.links.items()]

    def counts(self) -> Mapping[str, int]:
        return {}

    def spare_pids(self) -> Sequence[int]:
        return ()

    async def close(self) -> None:
        for _, link in self.live():
            with suppress(ActorLostError):
                await link.send(encode(p.Stop()))


class LossyEngine(LocalEngine):
    """Implements `runtime.engine.interface.Engine`.

    Attributes:
        messages: number of messages of the types in COUNTED.
        lost: names of the lost actors.
        decisions: numbers of the messages that stored decisions.
        clock: of all agents; no test waits for it.
        meddler: is called before each message arrives, and before its reply does; both wait for it.
        telemetry: makes that of a process.
    """

    def __init__(self, deployment: Deployment, losses: Sequence[Loss]) -> None:
        super().__init__(deployment)
        self._losses = {(loss.at, loss.before, loss.of_decisions): loss for loss in losses}
        self._at_work = asyncio.Lock()
        self.messages = 0
        self.lost: list[str] = []
        self.decisions: list[int] = []
        self.clock = ManualClock()
        self.over = asyncio.Event()
        self.meddler: Meddler | None = None
        self.telemetry: Callable[[Process], Telemetry] = lambda process: NO_TELEMETRY
        self._dead: list[Process] = []

    async def start(self) -> None:
        self._artifacts = open_artifact_store(self._deployment.artifact_store)
        self._start_session()
        self._start_runner()
        self.session = SessionRef(LossyLink(self, None, lambda: self._session, restarts=True))
        self.runner = RunnerRef(LossyLink(self, None, lambda: self._runner, restarts=True))

    def _start_session(self) -> None:
        process = Process("session")
        store = open_session_store(self._deployment.session_store, self._deployment.settings)
        process.actor = SessionActor(SessionEnvironment(store, self._deployment.tree.topology))
        self._session = process

    def _start_runner(self) -> None:
        process = Process("runner")
        self._directory = LossyDirectory(self, process)
        app = self._deployment.app_name
        environment = RunnerEnvironment(
            self._to_session(process), self._directory, self._artifacts, telemetry=self.telemetry(process)
        )
        process.actor = RunnerActor(environment, app=app)
        self._runner = process

    def agent(self, name: str) -> Process:
        process = Process(f"agent {name}")
        runner = self._runner
        runner_ref = RunnerRef(LossyLink(self, process, lambda: runner, restarts=False))
        spec = self._deployment.tree.spec(name)
        environment = AgentEnvironment(
            self._to_session(process),
            runner_ref,
            self._artifacts,
            resolve,
            self._plans.find,
            clock=self.clock,
            telemetry=self.telemetry(process),
        )
        process.actor = AgentActor(spec, environment)
        return process

    def _to_session(self, sender: Process) -> SessionRef:
        return SessionRef(LossyLink(self, sender, lambda: self._session, restarts=True))

    async def meddle(self, sender: Process | None, raw: bytes, *, handled: bool) -> None:
        """Let the test hold a message, or lose actors at it."""
        if self.meddler is not None and sender is not None:
            await self.meddler(sender, _decoder.decode(raw), handled)

    def number(self, raw: bytes) -> int:
        """The number of a message; -1 of one that does not count."""
        if not isinstance(_decoder.decode(raw), COUNTED):
            return -1
        if b"supervision" in raw:
            self.decisions.append(self.messages)
        self.messages += 1
        return self.messages - 1

    async def strike(self, number: int, sender: Process | None, receiver: Process, *, before: bool) -> None:
        """Lose the actors whose turn it is at this message."""
        loss = self._losses.pop((number, before, False), None)
        if number in self.decisions:
            loss = self._losses.pop((self.decisions.index(number), before, True), loss)
        if loss is None:
            return
        who = {"sender": sender, "receiver": receiver}.get(loss.who)
        parts = (
            [who.name.split()[0] if who is not None else "session"]
            if loss.who in ("sender", "receiver")
            else loss.who.split(" and ")
        )
        # The sender may be cancelled meanwhile by actors that notice the loss.
        await asyncio.shield(asyncio.create_task(self._lose(parts, who)))

    async def _lose(self, parts: Sequence[str], who: Process | None) -> None:
        async with self._at_work:
            for part in parts:
                if part == "session":
                    await self._lose_session()
                elif part == "runner":
                    self._lose_runner()
                elif who is not None:
                    self.cut(who)
                else:
                    self._lose_agents()

    async def _lose_session(self) -> None:
        lost = self._session
        self.cut(lost)
        await _cancelled(lost)
        # A write under way may be on disk or not; here it is, and only the reply is lost.
        await lost.actor.receive(encode(p.Stop()))
        self._start_session()

    def _lose_runner(self) -> None:
        self._lose_agents()
        self.cut(self._runner)
        self._start_runner()
        work = asyncio.create_task(self._runner.actor.receive(encode(p.RecoverTurns())))
        self._runner.work.add(work)

    def _lose_agents(self) -> None:
        for _, process in self._directory.links.values():
            self.cut(process)

    def cut(self, process: Process) -> None:
        """The process is gone."""
        if not process.is_dead:
            self.lost.append(process.name)
            self._dead.append(process)
            process.died.set_result(None)

    async def is_back(self, find: Callable[[], Process]) -> None:
        """Wait until a lost process is replaced."""
        async with self._at_work:
            assert not find().is_dead

    async def stop(self) -> None:
        await super().stop()
        self.over.set()
        for process in self._dead:
            await _cancelled(process)


async def _cancelled(process: Process) -> None:
    for work in process.work:
        work.cancel()
    await asyncio.gather(*process.work, return_exceptions=True)


def lossy_runtime(root: BaseAgent | Flow, folder: Path, losses: Sequence[Loss] = ()) -> tuple[Runtime, LossyEngine]:
    """A Runtime that loses actors."""
    rt = Deploy("local", folder)(root)
    deployment = rt._client.engine._deployment  # type: ignore[attr-defined]
    engine = rt._client.engine = LossyEngine(deployment, losses)
    return rt, engine

"""A Runner and its agents as plain classes, over a Session actor with a real store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from actors import BaseAgent, Content, Event, FlowAgent, Plugin
from actors.agent.environment import AgentEnvironment
from actors.definitions.tree.tree import AgentTree
from actors.interfaces.stores import ArtifactStore
from actors.messages import protocol as p
from actors.messages.codec import decode_event
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef
from actors.runner.actor import RunnerActor
from actors.runner.environment import RunnerEnvironment
from actors.session.actor import SessionActor
from actors.session.environment import SessionEnvironment
from runtime.engine.flow_registry import FlowRegistry
from runtime.engine.local import LocalDirectory, LocalLink
from runtime.models.registry import resolve
from runtime.stores.artifacts import FsspecArtifactStore
from tests.support.separate_actors import SeparateDirectory, Ways
from tests.support.session_fixture import KEY, FailingStore


class RunnerFixture:
    """All actors of one tree, and short calls to run turns.

    Args:
        ways: lead the messages between the Runner and the agents; by default they go straight on.
    """

    def __init__(
        self,
        root: BaseAgent,
        folder: Path,
        artifacts: ArtifactStore | None = None,
        plugins: Sequence[Plugin] = (),
        ways: Ways | None = None,
    ) -> None:
        tree = AgentTree(root, plugins)
        self._topology = tree.topology
        self._store_url = f"sqlite:///{folder}/sessions.db"
        self.store = FailingStore(self._store_url)
        self.artifacts = artifacts or FsspecArtifactStore(f"file://{folder}/artifacts")
        self._session_link = LocalLink(SessionActor(SessionEnvironment(self.store, tree.topology)))
        self.session = SessionRef(self._session_link)
        self.directory = LocalDirectory(tree) if ways is None else SeparateDirectory(tree, ways)
        runner = LocalLink(RunnerActor(RunnerEnvironment(self.session, self.directory, self.artifacts, plugins)))
        self.runner = RunnerRef(runner)
        to_runner = self.runner if ways is None else RunnerRef(ways.link("runner", runner))
        plans = FlowRegistry({agent.name: cast(FlowAgent, agent).flow.plan for agent in tree.flow_agents()})
        self.directory.environment = AgentEnvironment(self.session, to_runner, self.artifacts, resolve, plans.find)
        self._turns = 0
        self._acks: dict[str, int] = {}

    async def start(self, message: str | Content = "hi", *, turn: str = "", **more: Any) -> str:
        """Start a turn and return its id, which is also its subscriber's name."""
        self._turns += 1
        turn = turn or f"e-{self._turns}"
        content = Content.of_text(message) if isinstance(message, str) else message
        more.setdefault("subscriber", turn)
        started = await self.runner.start_turn(
            p.StartTurn(key=KEY, invocation_id=turn, content=content, auto_create=True, **more)
        )
        return started.invocation_id

    async def end(self, subscriber: str) -> tuple[list[Event], p.AnyOutcome]:
        """Wait for the end of a turn. Returns its complete events and its outcome."""
        events: list[Event] = []
        while True:
            news = await self.session.poll(p.Poll(subscriber=subscriber, ack=self._acks.get(subscriber, 0)))
            self._acks[subscriber] = news.number
            for of_turn in news.turns:
                events += [decode_event(stored.raw, stored.seq) for stored in of_turn.events if stored.seq]
                if of_turn.outcome is not None:
                    return events, of_turn.outcome

    async def run(self, message: str | Content = "hi", **more: Any) -> tuple[list[Event], p.AnyOutcome]:
        """A whole turn."""
        self._turns += 1
        subscriber = f"run-{self._turns}"
        await self.start(message, subscriber=subscriber, **more)
        return await self.end(subscriber)

    async def log(self) -> list[Event]:
        """The whole log."""
        found = (await self.session.get_session(p.GetSessionRequest(key=KEY))).session
        return [decode_event(stored.raw, stored.seq) for stored in found.events] if found is not None else []

    async def state(self) -> dict[str, Any]:
        """The session's state."""
        found = (await self.session.get_session(p.GetSessionRequest(key=KEY))).session
        return found.state if found is not None else {}

    async def restart_session(self) -> None:
        """Replace the Session actor: the next one knows what the store has, and neither Runners nor subscribers."""
        await self.session.stop()
        self.store = FailingStore(self._store_url)
        self._session_link._actor = SessionActor(SessionEnvironment(self.store, self._topology))

    def use(self, session: SessionRef) -> RunnerActor:
        """Have another Runner, which asks the Session actor through this client; its agents do not."""
        runner = RunnerActor(RunnerEnvironment(session, self.directory, self.artifacts), app=KEY.app)
        self.runner = RunnerRef(LocalLink(runner))
        self.directory.environment = replace(self.directory.environment, runner=self.runner)
        return runner

    async def close(self) -> None:
        """Stop all actors."""
        await self.runner.stop()
        await self.session.stop()

"""A flow's actors as plain classes over a real Session actor, whose log can be cut off anywhere.

A stand-in for the Runner passes rounds on and stops agents, so that a controller can be started again on a turn that was never
closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from actors import Event, Flow, FlowAgent, FunctionCall, LlmRequest, LlmResponse
from actors.actor import Actor, Handler
from actors.agent.actor import AgentActor
from actors.agent.environment import AgentEnvironment
from actors.definitions.flows import FlowPlan
from actors.definitions.tree.tree import AgentTree
from actors.messages import protocol as p
from actors.messages.codec import decode_event, encode
from actors.messages.content import Content, Part
from actors.messages.event import USER
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef
from actors.session.actor import SessionActor
from actors.session.environment import SessionEnvironment
from runtime.engine.local import LocalLink
from runtime.models.registry import resolve
from runtime.stores.artifacts import FsspecArtifactStore
from tests.support.session_fixture import KEY, FailingStore

TURN = "e-1"


class DiggingModel:
    """A stateless model: it calls `dig` first, then finishes the first of its tasks, and names its tasks with both.

    Attributes:
        requests: the requests that it was given.
    """

    def __init__(self) -> None:
        self.requests: list[LlmRequest] = []

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Respond by the request alone."""
        self.requests.append(request)
        last = next(request.contents[-1].function_responses(), None)
        finishes = [tool.name for tool in request.tools if tool.name.startswith("succeed_")]
        finish, said = finishes[0], " ".join(f"<{request.agent}:{name}>" for name in finishes)
        if last is not None and last.name == "dig":
            made = FunctionCall(name=finish, args={"result": f"{finish} by {request.agent}"})
        else:
            made = FunctionCall(name="dig")
        yield LlmResponse(content=Content(role="model", parts=[Part(text=said), Part(function_call=made)]))


class RoundRunner(Actor):
    """Stands in for the Runner: does what a controller asks of it."""

    def __init__(self, actors: FlowFixture) -> None:
        super().__init__("runner")
        self._actors = actors

    def handlers(self) -> Mapping[type[p.Message], Handler]:
        """Rounds, and stopping."""
        return {p.RunChild: self.run_child, p.StopBranch: self.stop_branch}

    async def run_child(self, message: p.RunChild) -> p.AnyOutcome:
        """Have the agent do its round."""
        assert message.work is not None
        return await self._actors.invoke(message.child, work=message.work, llm_calls=1)

    async def stop_branch(self, message: p.StopBranch) -> p.Ack:
        """Stop what all agents but the controller do."""
        for name, agent in self._actors.agents.items():
            if name != self._actors.flow.name:
                await agent.stop_run(p.StopRun(turn=self._actors.turn, runs=(0,)))
        return p.Ack()


class FlowFixture:
    """The actors that take part in one turn of a flow.

    Args:
        plan: the definition that the agents find; by default the flow's own.
    """

    def __init__(self, flow: Flow, folder: Path, plan: FlowPlan | None = None) -> None:
        self.flow = flow
        self._tree = AgentTree(FlowAgent(flow))
        self._plan = plan or flow.plan
        self._artifacts = FsspecArtifactStore(f"file://{folder}/artifacts")
        self.session = SessionRef(LocalLink(SessionActor(SessionEnvironment(FailingStore("sqlite://"), self._tree.topology))))
        self._runner = RunnerRef(LocalLink(RoundRunner(self)))
        self.agents: dict[str, AgentActor] = {}
        self._asked = p.StoredEvent(0, b"")
        self.turn = p.TurnRef(KEY, TURN, 1)

    async def open(self, events: Sequence[bytes] = ()) -> None:
        """Open the turn, and store the first events of its log."""
        raw = encode(Event(id="asked", invocation_id=TURN, author=USER, timestamp=1.0, content=Content.of_text("go")))
        opened = await self.session.open_turn(p.OpenTurn(key=KEY, invocation_id=TURN, event=raw, auto_create=True))
        assert isinstance(opened, p.TurnBegun)
        self._asked = p.StoredEvent(opened.seq, raw)
        self.turn = p.TurnRef(KEY, TURN, 1, generation=opened.generation)
        for event in events:
            await self.session.append(p.Append(turn=self.turn, events=[event]))

    async def invoke(self, agent: str, **more: Any) -> p.AnyOutcome:
        """One run of an agent's actor."""
        if agent not in self.agents:
            spec = self._tree.spec(agent)
            environment = AgentEnvironment(self.session, self._runner, self._artifacts, resolve, self._find)
            self.agents[agent] = AgentActor(spec, environment)
        message = p.Invoke(turn=self.turn, agent=agent, user_event=self._asked, **more)
        return await self.agents[agent].invoke(message)

    async def _find(self, _: str) -> FlowPlan:
        return self._plan

    async def control(self) -> p.AnyOutcome:
        """Run the controller, with its last note in the log."""
        noted = [event.actions.agent_state for event in await self.log() if event.actions.agent_state is not None]
        return await self.invoke(self.flow.name, progress=noted[-1] if noted else {})

    async def raw(self) -> list[bytes]:
        """The log after the user's message, encoded."""
        found = (await self.session.get_session(p.GetSessionRequest(key=KEY))).session
        return [stored.raw for stored in found.events if stored.seq > self._asked.seq] if found is not None else []

    async def log(self) -> list[Event]:
        """The log after the user's message."""
        return [decode_event(raw, 0) for raw in await self.raw()]

"""A flow's actors as plain classes over a real Session actor, whose log can be made to stop anywhere.

What the Runner does for a flow, to pass rounds on and to stop agents, is done here by a switchboard, so that a controller can be
started again on a turn that was never closed.
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
from actors.session.actor import SessionActor, SessionEnvironment
from runtime.engine.local import LocalLink
from runtime.models.registry import resolve
from runtime.stores.artifacts import FsspecArtifactStore
from tests.support.session_fixture import KEY, FailingStore

TURN = "e-1"


class Diligent:
    """A model without a state of its own: it digs first, then finishes the first of its tasks, and says beside both for which.

    Attributes:
        requests: what it was asked.
    """

    def __init__(self) -> None:
        self.requests: list[LlmRequest] = []

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Answer by what stands in the request alone."""
        self.requests.append(request)
        last = next(request.contents[-1].function_responses(), None)
        finishes = [tool.name for tool in request.tools if tool.name.startswith("succeed_")]
        finish, said = finishes[0], " ".join(f"<{request.agent}:{name}>" for name in finishes)
        if last is not None and last.name == "dig":
            made = FunctionCall(name=finish, args={"result": f"{finish} by {request.agent}"})
        else:
            made = FunctionCall(name="dig")
        yield LlmResponse(content=Content(role="model", parts=[Part(text=said), Part(function_call=made)]))


class Switchboard(Actor):
    """Takes what a controller asks of the Runner."""

    def __init__(self, house: FlowHouse) -> None:
        super().__init__("switchboard")
        self._house = house

    def handlers(self) -> Mapping[type[p.Message], Handler]:
        """Rounds, and stopping."""
        return {p.RunChild: self.run_child, p.StopBranch: self.stop_branch}

    async def run_child(self, message: p.RunChild) -> p.AnyOutcome:
        """Have the agent do its round."""
        assert message.work is not None
        return await self._house.invoke(message.child, work=message.work, llm_calls=1)

    async def stop_branch(self, message: p.StopBranch) -> p.Ack:
        """Stop what all agents but the controller do."""
        for name, agent in self._house.agents.items():
            if name != self._house.flow.name:
                await agent.stop_run(p.StopRun(turn=p.TurnRef(KEY, TURN, 1), runs=(0,)))
        return p.Ack()


class FlowHouse:
    """Everybody who takes part in one turn of a flow.

    Args:
        plan: what the agents are told of the flow; by default its own.
    """

    def __init__(self, flow: Flow, folder: Path, plan: FlowPlan | None = None) -> None:
        self.flow = flow
        self._tree = AgentTree(FlowAgent(flow))
        self._plan = plan or flow.plan
        self._artifacts = FsspecArtifactStore(f"file://{folder}/artifacts")
        self.session = SessionRef(LocalLink(SessionActor(SessionEnvironment(FailingStore("sqlite://"), self._tree.topology))))
        self._runner = RunnerRef(LocalLink(Switchboard(self)))
        self.agents: dict[str, AgentActor] = {}
        self._asked = p.StoredEvent(0, b"")
        self._generation = ""

    async def open(self, events: Sequence[bytes] = ()) -> None:
        """Open the turn, with a log that goes so far."""
        raw = encode(Event(id="asked", invocation_id=TURN, author=USER, timestamp=1.0, content=Content.of_text("go")))
        opened = await self.session.open_turn(p.OpenTurn(key=KEY, invocation_id=TURN, event=raw, auto_create=True))
        assert isinstance(opened, p.TurnBegun)
        self._asked, self._generation = p.StoredEvent(opened.seq, raw), opened.generation
        for event in events:
            await self.session.append(p.Append(turn=p.TurnRef(KEY, TURN, 1), events=[event]))

    async def invoke(self, agent: str, **more: Any) -> p.AnyOutcome:
        """One run of an agent's actor."""
        if agent not in self.agents:
            spec = self._tree.spec(agent)
            environment = AgentEnvironment(self.session, self._runner, self._artifacts, resolve, self._find)
            self.agents[agent] = AgentActor(spec, environment)
        message = p.Invoke(turn=p.TurnRef(KEY, TURN, 1), agent=agent, user_event=self._asked, generation=self._generation, **more)
        return await self.agents[agent].invoke(message)

    async def _find(self, _: str) -> FlowPlan:
        return self._plan

    async def control(self) -> p.AnyOutcome:
        """Start the controller, with what it noted in the log."""
        noted = [event.actions.agent_state for event in await self.log() if event.actions.agent_state is not None]
        return await self.invoke(self.flow.name, progress=noted[-1] if noted else {})

    async def raw(self) -> list[bytes]:
        """The log behind the user's message."""
        found = (await self.session.get_session(p.GetSessionRequest(key=KEY))).session
        return [stored.raw for stored in found.events if stored.seq > self._asked.seq] if found is not None else []

    async def log(self) -> list[Event]:
        """The same, read."""
        return [decode_event(raw, 0) for raw in await self.raw()]

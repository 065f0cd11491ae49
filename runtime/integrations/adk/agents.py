"""Subclasses of ADK's BaseAgent, which run as actors of their own; their children are other actors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
from google.adk.agents.base_agent import BaseAgent

from actors.definitions.agents.llm import LlmAgent
from actors.errors import AgentFailedError
from actors.errors.tracebacks import with_traceback
from actors.layers.custom.definitions import CustomAgent, InvocationContext
from actors.messages.event import USER, Event, EventActions
from actors.messages.protocol.runs import Failed, Paused
from actors.rules.routing.branches import tool_root
from runtime.integrations.adk import contexts
from runtime.integrations.adk.contents import adk_event, own_event


class ChildPausedError(BaseException):
    """Leaves the code of an agent whose child waits for an answer: the agent runs again when that has come."""


class AdkRun:
    """One run of a BaseAgent.

    Args:
        ours: raygrove's context of the run.
        theirs: ADK's, which the agent's code has.
    """

    def __init__(self, ours: InvocationContext, theirs: Any, events: list[Event]) -> None:
        self._ours = ours
        self._theirs = theirs
        self._taken = {event.seq for event in events if event.author in (USER, ours.agent_name)}
        self._told: set[int] = set()

    async def child(self, name: str, subtree: frozenset[str]) -> AsyncIterator[Any]:
        """Run a child in its own actor, and yield the events of its run.

        Args:
            subtree: the child, and all agents below it.
        """
        state = self._theirs.session.state
        if changes := state.changes():
            # The child reads the state from the log.
            await self._ours.change_state(changes)
            state.stored(self._ours.state)
        outcome = await self._ours.run_agent(name)
        if isinstance(outcome, Failed):
            failed = AgentFailedError(outcome.agent or name, outcome.error_code, outcome.error_message)
            raise with_traceback(failed, outcome.error_traceback)
        state.rebase(self._ours.state)
        for event in await self._news(subtree):
            told = adk_event(event)
            self._told.add(id(told))
            self._theirs.session.events.append(told)
            yield told
        if isinstance(outcome, Paused):
            raise ChildPausedError

    async def _news(self, subtree: frozenset[str]) -> list[Event]:
        news = [
            event
            for event in await self._ours.session.read_events()
            if event.seq not in self._taken
            and event.invocation_id == self._ours.invocation_id
            and event.author in subtree
            and event.actions.agent_state is None
            and event.actions.compaction is None
            and tool_root(event.branch) == tool_root(self._ours.branch)
        ]
        self._taken.update(event.seq for event in news)
        return news

    async def events(self, produced: AsyncIterator[Any], author: str) -> AsyncGenerator[Event, None]:
        """The agent's own events, with all that its code has written into the session's state."""
        state = self._theirs.session.state
        async for event in produced:
            if id(event) in self._told:
                # A child's: it is in the log already.
                continue
            own = own_event(event, author=author)
            if event.partial:
                yield own
                continue
            delta = {**state.changes(), **own.actions.state_delta}
            yield msgspec.structs.replace(own, actions=msgspec.structs.replace(own.actions, state_delta=delta))
            state.stored(self._ours.state)
            self._theirs.session.events.append(event)
        if changes := state.changes():
            yield Event(actions=EventActions(state_delta=changes))


class StandIn(BaseAgent):  # type: ignore[misc]
    """Stands for a child in the fields of its parent: when the parent's code runs it, the child's own actor does.

    Attributes:
        subtree: the child, and all agents below it.
    """

    subtree: frozenset[str] = frozenset()

    async def run_async(self, parent_context: Any) -> AsyncIterator[Any]:
        """Run the child's actor, and yield the events of its run."""
        run: AdkRun = parent_context.session_service.run
        async for event in run.child(self.name, self.subtree):
            yield event


class AnsweringAgent(LlmAgent):
    """An LlmAgent of ADK, which looks whether an answer fits `output_schema` only where it keeps it, or hands it on."""

    def keeps_unfit(self) -> bool:
        """True without an `output_key`, except for a node of a graph."""
        return not self.output_key and self.mode is None


class AdkAgent(CustomAgent):
    """A BaseAgent as a custom agent.

    Attributes:
        source: the ADK agent, with stand-ins for its children.
    """

    source: Any

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        """Run its `_run_async_impl`, and store the events that it yields."""
        events = [event for event in await context.session.read_events() if tool_root(event.branch) == tool_root(context.branch)]
        seen = [event for event in events if event.actions.agent_state is None]
        theirs = contexts.invocation_context(self.source.agent, context, self.source.app_name, events=seen)
        run = AdkRun(context, theirs, events)
        theirs.session_service.run = run
        try:
            produced = self.source.agent._run_async_impl(theirs)
            async with aclosing(produced), aclosing(run.events(produced, self.name)) as own:
                async for event in own:
                    yield event
        except ChildPausedError:
            return


def with_stand_ins(agent: Any) -> Any:
    """A copy of an ADK agent whose fields have stand-ins in place of the agents below it."""
    stand_ins = {
        id(child): StandIn(name=child.name, description=child.description, subtree=frozenset(_names(child)))
        for child in descendants(agent)
    }
    fields = {name: _replaced(value, stand_ins) for name, value in vars(agent).items() if name != "parent_agent"}
    copy = agent.model_copy(update={**fields, "parent_agent": None})
    private: dict[str, Any] = getattr(copy, "__pydantic_private__", None) or {}
    for name, value in private.items():
        private[name] = _replaced(value, stand_ins)
    return copy


def detached(agent: Any) -> Any:
    """A copy of an ADK agent without the agents around it, which are actors of their own."""
    return agent.model_copy(update={"parent_agent": None, "sub_agents": []})


def descendants(agent: Any) -> Iterator[Any]:
    """All agents below an ADK agent."""
    for child in agent.sub_agents:
        yield child
        yield from descendants(child)


def _names(agent: Any) -> Iterator[str]:
    yield agent.name
    yield from (below.name for below in descendants(agent))


def _replaced(value: Any, stand_ins: Mapping[int, Any]) -> Any:
    if id(value) in stand_ins:
        return stand_ins[id(value)]
    if isinstance(value, list | tuple):
        return type(value)([_replaced(each, stand_ins) for each in value]) if type(value) in (list, tuple) else value
    if type(value) is dict:
        return {key: _replaced(each, stand_ins) for key, each in value.items()}
    return value

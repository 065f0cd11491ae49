"""Parts of google-adk without a counterpart: ADK's own Runner runs them, inside one actor, over a session made of the log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Never

import msgspec
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.events.event import Event as AdkEvent
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.genai import types

from actors.layers.custom.definitions import CustomAgent, InvocationContext
from actors.messages.event import ADK_FIELDS, USER, Event
from actors.rules.routing.branches import tool_root
from runtime.integrations.adk.contents import adk_event, genai_content, own_event
from runtime.integrations.adk.contexts import adk_run_config
from runtime.integrations.adk.services.runs import Artifacts, RunMemory

_UNKEPT = {"content", "usage_metadata"}
"""Fields of an ADK event that raygrove's event has, so they need not be kept twice."""

# Made unchecked, since ADK warns of its own setting.
_RESUMABLE = ResumabilityConfig.model_construct(is_resumable=True)


class Island(CustomAgent):
    """An ADK agent or node, with all that is below it, in one actor.

    Attributes:
        source: the agent or node.
    """

    resumes_itself: ClassVar[bool] = True

    source: Any
    app_name: str
    resumability: Any = None

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        """Run it from the message of the turn, or from where the log ends."""
        # What callbacks have left before is not ADK's.
        done = [event for event in context.done if ADK_FIELDS in (event.custom_metadata or {})]
        if done and self._has_answered(adk_event(done[-1])):
            return
        begin = _begin(await context.session.read_events(), done, context)
        session = Session(id=context.session_id, app_name=self.app_name, user_id=context.user_id)
        session.state = dict(context.state)
        session.events = begin.events
        # Made unchecked: a name that ADK's App refuses may stand in programs that use its Runner without one.
        app = App.model_construct(
            name=self.app_name, root_agent=self.source, plugins=[], resumability_config=begin.resumability or self.resumability
        )
        runner = _Runner(
            app=app, artifact_service=Artifacts(context), memory_service=RunMemory(context), session_service=_Sessions(session)
        )
        produced = runner.run_async(
            user_id=context.user_id,
            session_id=context.session_id,
            new_message=begin.message,
            invocation_id=begin.invocation_id,
            run_config=adk_run_config(context.run_config),
        )
        async with aclosing(produced), aclosing(self._own(produced, begin)) as own:
            async for event in own:
                yield event

    def _has_answered(self, last: AdkEvent) -> bool:
        """True if the run was lost after it had ended: ADK would ask the model once more. A graph finds that out itself."""
        if not isinstance(self.source, LlmAgent) or not last.is_final_response() or last.content is None:
            return False
        author = self.source.find_agent(last.author)
        return author is not None and getattr(author, "mode", None) in (None, "chat")

    async def _own(self, produced: AsyncIterator[AdkEvent], begin: _Begin) -> AsyncGenerator[Event, None]:
        async for event in produced:
            if begin.resumability is not None and event.content is None and _is_checkpoint(event):
                # A checkpoint, which the program would not have without that setting.
                continue
            if event.partial:
                yield own_event(event, author=self.name)
                continue
            kept = event.model_dump(mode="json", exclude=_UNKEPT, exclude_defaults=True)
            if "output" in event.model_fields_set:
                # A node may give None, which is not the same as giving nothing.
                kept.setdefault("output", None)
            own = own_event(event, author=self.name, metadata={ADK_FIELDS: {"event": kept}})
            # Transfers stay inside.
            yield msgspec.structs.replace(own, actions=msgspec.structs.replace(own.actions, transfer_to_agent=None))


class _Begin(msgspec.Struct):
    """Where ADK's Runner begins.

    Attributes:
        events: what it finds in the session.
        message: what it is sent; None when it goes on by itself.
        invocation_id: of the invocation that it goes on with; None for a new one, or one that it finds by the message.
        resumability: in place of the App's; None for the App's.
    """

    events: list[AdkEvent]
    message: types.Content | None
    invocation_id: str | None = None
    resumability: ResumabilityConfig | None = None


def _begin(log: Sequence[Event], done: Sequence[Event], context: InvocationContext) -> _Begin:
    """Where ADK's Runner begins: at the message of the turn, or if the run was lost, where the log ends."""
    root = tool_root(context.branch)
    seen = [event for event in log if event.actions.agent_state is None and tool_root(event.branch) == root]
    asked = max((index for index, event in enumerate(seen) if event.author == USER and not event.steers), default=None)
    events = [adk_event(event) for event in seen]
    # ADK looks for the message of an invocation by the invocation's id, which raygrove's message does not have.
    pairs = list(zip(seen, events, strict=True))
    ids = {event.invocation_id: theirs.invocation_id for event, theirs in pairs if event.author == context.agent_name}
    for event, theirs in pairs:
        if event.author == USER:
            theirs.invocation_id = ids.get(event.invocation_id, event.invocation_id)
    if done and (asked is None or seen[asked].seq < done[-1].seq):
        last = adk_event(done[-1])
        # Only with this setting ADK makes calls that were under way again, in place of asking the model again.
        is_calling = bool(last.get_function_calls()) and not last.long_running_tool_ids
        return _Begin(events, None, last.invocation_id, _RESUMABLE if is_calling else None)
    # ADK's Runner puts the message into the session itself.
    return _Begin([event for index, event in enumerate(events) if index != asked], genai_content(context.user_content))


def _is_checkpoint(event: AdkEvent) -> bool:
    return event.actions.end_of_agent is not None or event.actions.agent_state is not None


class _Runner(Runner):  # type: ignore[misc]
    def _enforce_app_name_alignment(self) -> None:
        """Do not compare the app's name with the folder of the code: sessions are stored under raygrove's name of the app."""


class _Sessions(BaseSessionService):  # type: ignore[misc]
    """The one session of an island. Its events are stored when they come out of ADK's Runner, which waits for that."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get_session(self, **_: Any) -> Session:
        """The session."""
        return self._session

    async def create_session(self, **_: Any) -> Never:
        """Refused."""
        raise NotImplementedError("use Runtime.sessions in the program")

    async def list_sessions(self, **_: Any) -> Never:
        """Refused."""
        raise NotImplementedError("use Runtime.sessions in the program")

    async def delete_session(self, **_: Any) -> Never:
        """Refused."""
        raise NotImplementedError("use Runtime.sessions in the program")

"""ADK's contexts, real ones, filled from raygrove's; and what user code did with them carried back.

This module alone depends on how ADK's contexts, and raygrove's, are made.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, Never

from google.adk.agents.context import Context
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.sessions.session import Session
from google.adk.tools.tool_confirmation import ToolConfirmation
from pydantic import PrivateAttr

from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.definitions.tools.context import ReadonlyContext as OwnReadonlyContext
from actors.definitions.tools.context import ToolConfirmation as OwnToolConfirmation
from actors.definitions.tools.state import State
from actors.errors import NotCarriedOverError, RequestError
from actors.messages.config import RunConfig as OwnRunConfig
from actors.messages.drafts import LazyList
from actors.messages.event import Event
from runtime.integrations.adk.contents import adk_event, genai_content
from runtime.integrations.adk.services import Artifacts, RunMemory, Sessions, question_of, refuse, stored_credential
from runtime.integrations.adk.state import LiveState, StateCopy, may_read_events

_RUN_CONFIG = RunConfig()
"""Copied for each context, which takes a tenth of the time of making one."""

_STREAMING = {"sse": StreamingMode.SSE, "none": StreamingMode.NONE}


_DEFINED = ("model", "instruction", "global_instruction", "static_instruction", "description", "output_key", "output_schema")
"""Fields of an agent that a callback must not change: they were read when the tree was made."""


class Source:
    """An ADK agent as it was defined, and the app that it belongs to: what every converted part of it refers to."""

    def __init__(self, agent: Any, app_name: str) -> None:
        self.agent = agent
        self.app_name = app_name
        self._fields = self._now()

    def _now(self) -> dict[str, Any]:
        return {
            **{name: getattr(self.agent, name, None) for name in _DEFINED},
            # Not their ids: equal trees have equal fingerprints.
            "tools": list(getattr(self.agent, "tools", ())),
        }

    @property
    def output_schema(self) -> Any:
        """The agent's `output_schema`; None without one."""
        return getattr(self.agent, "output_schema", None)

    def check_unchanged(self) -> None:
        """Check that user code has not changed the definition. Raises NotCarriedOverError, which names the field."""
        now = self._now()
        for name, value in self._fields.items():
            if now[name] is not value and now[name] != value:
                if name != "tools":
                    setattr(self.agent, name, value)
                raise NotCarriedOverError(
                    f"a callback or tool has set {name!r} of agent {self.agent.name!r}: definitions do not change. "
                    "Change the request in a before_model_callback, or make the instruction a function"
                )

    def __getstate__(self) -> dict[str, Any]:
        return {"agent": self.agent, "app_name": self.app_name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._fields = self._now()


_CREDENTIALS = "only the call of a tool asks the user for one"


class AdkContext(Context):  # type: ignore[misc]
    """ADK's context of a callback or a tool; what raygrove has no counterpart for is refused by name."""

    async def run_node(self, node: Any, *args: Any, **more: Any) -> Any:
        """Run a node below a call of a tool. Refused in callbacks: these have no place in the log."""
        run = self.__dict__.get("_run_node")
        if run is None:
            self._refuse("run_node in a callback", "run it in a tool, or run the whole as an island (islands=True)")
        return await run(node, *args, **more)

    def _refuse(self, what: str, instead: str) -> Never:
        try:
            refuse(what, instead)
        except NotCarriedOverError as error:
            # A tool that goes on after it must not hide it.
            self.__dict__["_refused"] = error
            raise


class UnreadContext(AdkContext):
    """A context that becomes an AdkContext as soon as user code looks at it: making one costs more than most callbacks do.

    Args:
        function_call_id: the call, for the context of a tool.
    """

    def __init__(self, make: Callable[[], InvocationContext], function_call_id: str | None) -> None:
        self.__dict__.update(_make=make, _call_id=function_call_id)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Python asks for these when it copies an object, which is no look at it.
            raise AttributeError(name)
        self._read()
        return getattr(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._read()
        setattr(self, name, value)

    def _read(self) -> None:
        make, call_id = self.__dict__.pop("_make"), self.__dict__.pop("_call_id")
        object.__setattr__(self, "__class__", AdkContext)
        Context.__init__(self, make(), function_call_id=call_id)


class ContextSession(Session):  # type: ignore[misc]
    """The session of a callback or a tool: its events are read when user code looks at them.

    Args:
        ours: raygrove's context.
    """

    _ours: Any = PrivateAttr(None)

    def __init__(self, ours: Any, app_name: str) -> None:
        super().__init__(id=ours.session_id, app_name=app_name, user_id=ours.user_id)
        self._ours = ours
        # Without the field's value Python asks __getattr__.
        del self.__dict__["events"]

    def __getattr__(self, name: str) -> Any:
        if name != "events":
            return super().__getattr__(name)
        try:
            given = self._ours.session.events
        except RequestError:
            refuse(
                "session.events that async code looks at without naming them",
                "name them in the callback or tool itself, which has them then, or look in a sync one",
            )
        events = self.__dict__["events"] = LazyList(given, Event, adk_event)
        return events


def invocation_context(agent: Any, ours: Any, app_name: str, *, events: Iterable[Event] | None = None) -> InvocationContext:
    """ADK's view of one run of an agent.

    Args:
        ours: raygrove's context of the run, of whatever kind.
        events: the session's events, oldest first; None: they are read when user code looks at them.
    """
    session = ContextSession(ours, app_name)
    session.state = LiveState(ours.state) if isinstance(ours.state, State) else StateCopy(ours.state)
    if events is not None:
        session.events = LazyList(events, Event, adk_event)
    return InvocationContext(
        artifact_service=Artifacts(ours),
        session_service=Sessions(session, ours),
        memory_service=RunMemory(ours),
        invocation_id=ours.invocation_id,
        branch=getattr(ours, "branch", None),
        agent=agent,
        user_content=genai_content(ours.user_content),
        session=session,
        run_config=adk_run_config(ours.run_config),
    )


def adk_run_config(ours: OwnRunConfig) -> RunConfig:
    """The options of a turn as ADK's contexts have them; changing them changes nothing."""
    given = {
        "streaming_mode": _STREAMING[ours.streaming],
        "max_llm_calls": ours.max_llm_calls,
        "save_input_blobs_as_artifacts": ours.save_input_blobs_as_artifacts,
        "custom_metadata": copy.deepcopy(ours.custom_metadata),
    }
    if ours.model_input_context:
        given["model_input_context"] = [genai_content(content) for content in ours.model_input_context]
    return _RUN_CONFIG.model_copy(update=given)


def readonly_context(agent: Any, ours: OwnReadonlyContext, app_name: str) -> ReadonlyContext:
    """The context of an instruction provider or a toolset."""
    return ReadonlyContext(invocation_context(agent, ours, app_name))


def callback_context(agent: Any, ours: CallbackContext, app_name: str) -> AdkContext:
    """The context of a callback, or with a call's id that of a tool, which knows what the user has decided on the call."""
    context = UnreadContext(lambda: invocation_context(agent, ours, app_name), getattr(ours, "function_call_id", None))
    decided: OwnToolConfirmation | None = getattr(ours, "tool_confirmation", None)
    if decided is not None:
        context.tool_confirmation = ToolConfirmation(**decided._asdict())
    return context


def tool_context(agent: Any, ours: CallbackContext, app_name: str, *, is_confirmed: bool = False) -> AdkContext:
    """The context of a tool; `is_confirmed`: the user has agreed to the call, if nothing else is known of that."""
    context = callback_context(agent, ours, app_name)
    if is_confirmed and getattr(ours, "tool_confirmation", None) is None:
        context.tool_confirmation = ToolConfirmation(confirmed=True)
    return context


async def read_events_for(code: Any, ours: OwnReadonlyContext) -> None:
    """Read the session's events if code that is going to run on this loop may look at them."""
    if may_read_events(code):
        await ours.session.read_events()


def carry_state(theirs: InvocationContext, ours: CallbackContext) -> None:
    """Take over what user code has written into the state of an ADK session."""
    for key, value in theirs.session.state.changes().items():
        ours.state[key] = stored_credential(value)


def carry_back(context: Context, ours: CallbackContext) -> None:
    """Take over what user code has written into an ADK context.

    Raises:
        NotCarriedOverError: it asked for something that raygrove has no counterpart for.
    """
    if (refused := vars(context).get("_refused")) is not None:
        raise refused
    if isinstance(context, UnreadContext):
        return
    actions = context.actions
    carry_state(context._invocation_context, ours)
    written = ours.actions.state_delta
    for key, value in actions.state_delta.items():
        # Most of it is there already, and another call of the response may have written the key since.
        plain = stored_credential(value)
        if key not in written or written[key] != plain:
            ours.state[key] = plain
    # What ADK's own code has asked for, past the methods of the context.
    for call_id, config in actions.requested_auth_configs.items():
        if not isinstance(ours, ToolContext) or call_id != ours.function_call_id:
            refuse("request_credential outside of a call", _CREDENTIALS)
        question = question_of(config, f"agent {ours.agent_name!r}")
        ours.request_input(question, question)
    for call_id, asked in actions.requested_tool_confirmations.items():
        if not isinstance(ours, ToolContext) or call_id != ours.function_call_id:
            refuse("request_confirmation for another call", "a tool asks for its own call only")
        ours.request_confirmation(hint=asked.hint, payload=asked.model_dump(mode="json")["payload"])
    if actions.transfer_to_agent is not None:
        ours.actions.transfer_to_agent = actions.transfer_to_agent
    if actions.escalate is not None:
        ours.actions.escalate = actions.escalate
    if actions.skip_summarization is not None:
        ours.actions.skip_summarization = actions.skip_summarization

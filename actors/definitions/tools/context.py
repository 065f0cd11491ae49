"""What user code is given: state to read and write, actions to take, artifacts, memory."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from actors.definitions.tools.outgoing import MessageContext, Outgoing
from actors.definitions.tools.state import Sharing, State
from actors.errors import NotEncodableError, RequestError, UnknownAgentError
from actors.errors.hints import did_you_mean, explains_wrong_calls
from actors.interfaces.access import ArtifactAccess, Inbox, LogAccess, MemoryAccess, Offload, Reach, RunSession
from actors.messages.config import RunConfig
from actors.messages.content import Content, Part
from actors.messages.event import EventActions, RequestedInput
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue, StateDelta
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.session import MemoryEntry, SessionKey

Ask = Callable[[str, str, Content], Awaitable[tuple[AnyOutcome, str]]]
"""`Context.ask_agent`: called with the agent's name, the id of the call, and the request."""

RunNode = Callable[..., Awaitable[JsonValue]]
"""Runs a node below a call: see ToolContext.run_node."""

Report = Callable[[Any], Coroutine[Any, Any, None]]
"""Shows readers how far a call is: see ToolContext.report_progress."""

Delegate = Callable[[str, str, JsonValue], Awaitable[AnyOutcome]]
"""`Context.delegate`: called with the child's name, the id of the call, and the arguments."""


class AnsweredInput(NamedTuple):
    """The user's answer to a question of a call.

    Attributes:
        memo: what the tool has given with the question.
        response: what the user has answered.
    """

    memo: JsonObject
    response: JsonObject


class ToolConfirmation(NamedTuple):
    """What the user has decided on a call.

    Attributes:
        confirmed: True if the user agrees.
        payload: what the user has given along, a JSON value; None for nothing.
        hint: what the tool has said when it asked; "" where the definition of the tool asks.
    """

    confirmed: bool
    payload: JsonValue = None
    hint: str = ""


DECISIONS = ("transfer_to_agent", "escalate", "skip_summarization")
"""The actions by which a call ends its agent's run, or hands it over."""


class Actions:
    """The actions of an event that is being made. It has attributes of EventActions, which may be set.

    Args:
        shared: for one of several functions that run at the same time: the state as all of them see it.
    """

    def __init__(self, shared: Sharing | None = None) -> None:
        self._shared = shared
        self._state_delta: StateDelta = {}
        self._states: list[State] = []
        # The numbers of the newest writes of keys, among those of all calls that share the state.
        self._writes: dict[str, int] = {}
        self.artifact_delta: dict[str, int] = {}
        self.transfer_to_agent: str | None = None
        self.escalate: bool | None = None
        self.skip_summarization: bool | None = None
        self.requested_inputs: dict[str, RequestedInput] = {}
        self.requested_tool_confirmations: dict[str, JsonObject] = {}

    @property
    def state_delta(self) -> StateDelta:
        """Writes into the state, by prefixed keys."""
        for state in self._states:
            state.record_changes()
        return self._state_delta

    @state_delta.setter
    def state_delta(self, delta: StateDelta) -> None:
        self._states = []
        self._state_delta = delta

    def state_over(self, base: JsonMapping) -> State:
        """The state before these actions, as a State whose changes become part of them."""
        shared, delta = self._shared, self._state_delta
        state = State(base, delta) if shared is None else shared.state_over(base, delta, self._writes)
        self._states.append(state)
        return state

    def forget_state(self) -> None:
        """Leave out what was written into the state: it is on its way to the log with an event."""
        for state in self._states:
            state.taken()
        self._state_delta.clear()

    def merge(self, later: Actions) -> None:
        """Add those of another call of the response: booleans are or-ed; what was written last counts, else the later call's."""
        for key, value in later.state_delta.items():
            write = later._writes.get(key, 0)
            if write >= self._writes.get(key, 0):
                self._writes[key] = write
                self.state_delta[key] = value
        self.artifact_delta.update(later.artifact_delta)
        self.transfer_to_agent = later.transfer_to_agent or self.transfer_to_agent
        self.escalate = self.escalate or later.escalate
        self.skip_summarization = self.skip_summarization or later.skip_summarization
        self.requested_inputs.update(later.requested_inputs)
        self.requested_tool_confirmations.update(later.requested_tool_confirmations)

    def leave_out_older(self, written: Mapping[str, int]) -> None:
        """Leave out what was written into the state before what is stored already.

        Args:
            written: by key, the number of the newest write that is stored.
        """
        for key in [key for key in self.state_delta if self._writes.get(key, 0) < written.get(key, 0)]:
            del self.state_delta[key]

    @property
    def writes(self) -> Mapping[str, int]:
        """By key, the number of the newest write, among those of all calls of the response."""
        return self._writes

    def take_decisions(self) -> JsonObject:
        """Leave out whether the run ends or hands over, and return that, by the names of the actions."""
        taken = {name: value for name in DECISIONS if (value := getattr(self, name))}
        for name in taken:
            setattr(self, name, None)
        return taken

    def forget_questions(self) -> None:
        """Ask the user nothing."""
        self.requested_inputs.clear()
        self.requested_tool_confirmations.clear()

    def freeze(self) -> EventActions:
        """The actions in the form in which an event has them."""
        return EventActions(
            state_delta=dict(self.state_delta),
            artifact_delta=dict(self.artifact_delta),
            transfer_to_agent=self.transfer_to_agent,
            escalate=self.escalate,
            skip_summarization=self.skip_summarization,
            requested_inputs=dict(self.requested_inputs),
            requested_tool_confirmations=dict(self.requested_tool_confirmations),
        )


_SECRETS = "there is no service for users' credentials: a long-running tool can ask the user, and its answer continues the turn"
_CONSENT = "the ToolContext of a call has it; FunctionTool(…, require_confirmation=True) asks the user before each call"

NOT_OF_CONTEXTS: Mapping[str, str] = {
    "_invocation_context": "context.session, context.branch, context.run_config and context.invocation_id say what it would",
    "get_invocation_context": "context.session, context.branch, context.run_config and context.invocation_id say what it would",
    "request_credential": _SECRETS,
    "get_auth_response": _SECRETS,
    "load_credential": _SECRETS,
    "save_credential": _SECRETS,
    "request_confirmation": _CONSENT,
    "tool_confirmation": _CONSENT,
    "request_input": "the ToolContext of a call has it; a function of a graph returns RequestInput(message=…, response_schema=…)",
}
"""What ADK's contexts have and these have not, and what to do instead."""


_FORM = ("message", "requestedSchema")
"""The fields of a question of which a form is made."""


def _nothing(kind: type[Any]) -> None:
    """Outside of a run there is nothing."""


class ReadonlyContext:
    """The run of an agent, for instructions that are functions: it can be read but not changed.

    Attributes:
        agent_name: the agent that runs.
        invocation_id: the turn.
        user_id: the user of the session.
        session_id: the session.
        branch: the parallel branch that the agent runs on, None outside of any.
        run_config: the options of the turn.
        user_content: the message that opened the turn.
        reach: gives a tool what it needs of a process, by its class, such as the MCP servers; None where there is none.
    """

    def __init__(
        self,
        *,
        agent_name: str,
        invocation_id: str,
        log: LogAccess,
        branch: str | None,
        run_config: RunConfig,
        user_content: Content,
        state: JsonMapping,
        reach: Reach = _nothing,
    ) -> None:
        self.agent_name = agent_name
        self.invocation_id = invocation_id
        self.user_id = log.key.user
        self.session_id = log.key.session
        self.branch = branch
        self.run_config = run_config
        self.user_content = user_content
        self.reach = reach
        self._log = log
        self._state = state

    @property
    def state(self) -> JsonMapping:
        """Session state of all scopes, by prefixed keys."""
        return MappingProxyType(self._state) if isinstance(self._state, dict) else self._state

    @property
    def session_key(self) -> SessionKey:
        """Names the session: its app, its user and its id."""
        return self._log.key

    if not TYPE_CHECKING:
        # Type checkers are to find unknown attributes.
        def __getattr__(self, name: str) -> object:
            instead = f": {NOT_OF_CONTEXTS[name]}" if name in NOT_OF_CONTEXTS else ""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{instead}", name=name, obj=self)

    @cached_property
    def session(self) -> RunSession:
        """The session, to look at: its ids, its state, and its events, which are read when they are looked at."""
        return RunSession(self._log, lambda: self.state)


class CallbackContext(ReadonlyContext):
    """The run of an agent, for callbacks: they can write state, save artifacts and search memory.

    State and artifacts that a callback writes are recorded on the event that the callback belongs to.

    Attributes:
        actions: what that event will do.
    """

    def __init__(self, *, artifacts: ArtifactAccess, actions: Actions | None = None, **where: Any) -> None:
        super().__init__(**where)
        self.actions = actions or Actions()
        self._artifacts = artifacts
        self._writable = self.actions.state_over(self._state)

    @property
    def state(self) -> State:
        """Session state of all scopes, by prefixed keys; what is assigned is stored with the event."""
        return self._writable

    async def save_artifact(self, filename: str, artifact: Any) -> int:
        """Store an artifact of the session, or with a name that begins with `user:` of the user.

        Args:
            artifact: a Part, or one of google-genai.

        Returns:
            The version, from 0.

        Raises:
            InvalidIdError: no artifact can have that name.
            NotEncodableError: `artifact` is no part.
            ArtifactError: the store could not save it.
        """
        version = await self._artifacts.save(filename, _as_part(artifact))
        self.actions.artifact_delta[filename] = version
        return version

    async def load_artifact(self, filename: str, version: int | None = None) -> Part | None:
        """The artifact in that version, by default the latest; None when there is none.

        Raises:
            ArtifactError: the store could not load it.
        """
        return await self._artifacts.load(filename, version)

    async def list_artifacts(self) -> list[str]:
        """The names of all artifacts of the session, and of those that the user's sessions share (`user:`), sorted."""
        return await self._artifacts.keys()

    async def add_session_to_memory(self) -> None:
        """Remember what was said in the session so far, in place of what was remembered of it before.

        Raises:
            NoMemoryError: the app has no memory.
            StoreError: the store could not keep it.
        """
        await self._memory().add_session()

    async def search_memory(self, query: str) -> list[MemoryEntry]:
        """The remembered entries of the user that share a word with the query, the best first, at most 10.

        Raises:
            NoMemoryError: the app has no memory.
            StoreError: the store could not search.
        """
        return await self._memory().search(query)

    def _memory(self) -> MemoryAccess:
        """The memory of the user. Raises RequestError outside of a run."""
        memory: MemoryAccess | None = self.reach(MemoryAccess)  # type: ignore[type-abstract]
        if memory is None:
            raise RequestError("there is no memory outside of a run")
        return memory


class ToolContext(CallbackContext, MessageContext):
    """The call of a tool: a CallbackContext with the call's id.

    Attributes:
        function_call_id: the call to answer; it stays the same when the call is repeated after a crash.
        offload: runs a function where the cluster has the resources that it needs.
        input: what the user has answered to the question of this call; None as long as there is no answer.
        tool_confirmation: what the user has decided on this call; None as long as there is no decision.
        node_runner: runs nodes below this call; None: nothing does.
    """

    def __init__(
        self,
        *,
        function_call_id: str,
        offload: Offload,
        ask: Ask | None = None,
        delegate: Delegate | None = None,
        report: Report | None = None,
        inbox: Inbox | None = None,
        input: AnsweredInput | None = None,
        tool_confirmation: ToolConfirmation | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.input = input
        self.tool_confirmation = tool_confirmation
        self.function_call_id = function_call_id
        self.offload = offload
        self._ask = ask
        self._delegate = delegate
        self.node_runner: RunNode | None = None
        self._report = report
        # No call is left to the collector of cycles.
        self._outgoing = Outgoing(weakref.proxy(self), inbox, f"{self.branch} {function_call_id}")

    async def report_progress(self, value: Any) -> None:
        """Show readers of the turn how far the call is, in a partial event, which no log and no model has.

        The event has a function response with the id of the call, the value as `{"result": value}` unless it is a dictionary, and
        `will_continue`. What a tool yields is reported so. Outside of the call of a model nothing is shown.

        Args:
            value: what a result may be; of a long one readers get the beginning and the end.

        Raises:
            FencedError: the turn was taken over or has ended.
        """
        if self._report is not None:
            await self._report(value)

    @explains_wrong_calls
    def request_input(self, question: JsonObject, memo: JsonObject | None = None) -> None:
        """Ask the user something in the middle of the call: return None then, and the turn is paused.

        With the user's answer, also after a restart, the tool is run again with the same arguments, and `input` is set.

        Args:
            question: what the user is asked; `PendingCall.question` has it. Of `message`, a text, and `requestedSchema`, a JSON
                schema of an object with simple fields, front ends make a form.
            memo: comes back with the answer.

        Raises:
            RequestError: the question is no dictionary, or has one of these names misspelt.
        """
        if not isinstance(question, Mapping):
            raise RequestError(f"a question is a dictionary, such as {{'message': 'How many?'}}, not {type(question).__name__}")
        for name in question.keys() - _FORM:
            if hint := did_you_mean(name, _FORM):
                raise RequestError(f"a question has no field {name!r}.{hint}")
        self.actions.requested_inputs[self.function_call_id] = RequestedInput(question=question, memo=memo or {})

    def request_confirmation(self, *, hint: str | None = None, payload: JsonValue = None) -> None:
        """Have the user decide on this call: the turn is paused when the tool returns, whatever it returns.

        The answer is `{"confirmed": true}` or `{"confirmed": false}`, with a `payload` if the tool wants one. With it, also after
        a restart, the tool is run again with the same arguments, and `tool_confirmation` is set.

        Args:
            hint: what the user reads with the call.
            payload: an example of the answer's payload, a JSON value.
        """
        asked: JsonObject = {"hint": hint or "", "confirmed": False, **({} if payload is None else {"payload": payload})}
        question: JsonObject = {"message": hint or "", **({} if payload is None else {"payload": payload})}
        self.actions.requested_tool_confirmations[self.function_call_id] = asked
        self.actions.requested_inputs[self.function_call_id] = RequestedInput(question=question, is_confirmation=True)

    async def ask_agent(self, name: str, content: Content) -> tuple[AnyOutcome, str]:
        """Ask an agent that the running agent has as an AgentTool.

        Returns:
            How the asked agent's run ended, and the text of its last final response, "" without one.

        Raises:
            UnknownAgentError: the running agent has no such AgentTool.
        """
        if self._ask is None:
            raise UnknownAgentError(name, " No agent can be asked outside of a run.")
        return await self._ask(name, self.function_call_id, content)

    async def run_node(
        self,
        node: Any,
        node_input: Any = None,
        *,
        run_id: str | None = None,
        use_sub_branch: bool = False,
        override_branch: str | None = None,
    ) -> JsonValue:
        """Run a node below this call, and return its output; the model sees nothing of it but the result of the call.

        A call that is made again after a loss runs the tool from its start, and a run that was over gives what it gave. A run
        that waits for the user fails: a function that is a node itself among the tools may ask.

        Args:
            node: a function, a FunctionNode; or a child of the agent, itself or by its name.
            node_input: the input: plain data, or a Content.
            run_id, use_sub_branch, override_branch: see NodeContext.run_node.

        Raises:
            DynamicNodeFailError: the run has failed.
            ValueError: `run_id` is a number; or this is no call of an LLM agent.
            UnknownAgentError: the agent has no such child.
        """
        if self.node_runner is None:
            raise ValueError("only the call of a tool of an LLM agent runs nodes: a node has ctx.run_node")
        options = {"run_id": run_id, "use_sub_branch": use_sub_branch, "override_branch": override_branch}
        return await self.node_runner(node, node_input, **options)

    async def delegate(self, name: str, data: JsonValue) -> AnyOutcome:
        """Have a delegate of the running agent work for this call; a call that is made again goes on where it was.

        Args:
            data: what the delegate is asked, as a node is.

        Returns:
            How its run ended; Paused while it waits for the user.

        Raises:
            UnknownAgentError: the running agent has no such delegate.
        """
        if self._delegate is None:
            raise UnknownAgentError(name, " No agent can be asked outside of a run.")
        return await self._delegate(name, self.function_call_id, data)


def _as_part(artifact: object) -> Part:
    if isinstance(artifact, Part):
        return artifact
    try:
        return Part.from_genai(artifact)
    except (AttributeError, msgspec.ValidationError) as error:
        raise NotEncodableError(type(artifact).__name__, "an artifact is a Part, for example Part(text=…)") from error

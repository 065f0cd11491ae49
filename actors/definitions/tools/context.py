"""What user code is given: state to read and write, actions to take, artifacts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

from actors.errors import UnknownAgentError
from actors.interfaces.context import ArtifactAccess, MemoryAccess, Offload
from actors.messages.content import Content, Part
from actors.messages.event import EventActions
from actors.messages.memory import MemoryEntry
from actors.messages.protocol.outcomes import AnyOutcome

Ask = Callable[[str, str, Content], Awaitable[tuple[AnyOutcome, str]]]
"""See Context.ask_agent."""


class State(MutableMapping[str, Any]):
    """Session state as a mapping of prefixed keys. What is written is noted, and rides on the event it belongs to."""

    def __init__(self, base: Mapping[str, Any], delta: dict[str, Any] | None = None) -> None:
        self._base = base
        self.delta: dict[str, Any] = {} if delta is None else delta

    def __getitem__(self, key: str) -> Any:
        return self.delta[key] if key in self.delta else self._base[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.delta[key] = value

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self.delta[key] = None

    def __iter__(self) -> Iterator[str]:
        yield from self._base
        yield from (key for key in self.delta if key not in self._base)

    def __len__(self) -> int:
        return len(self._base) + sum(key not in self._base for key in self.delta)


class Actions:
    """The actions of an event while it is being made. Attributes are those of EventActions, and may be set."""

    def __init__(self) -> None:
        self.state_delta: dict[str, Any] = {}
        self.artifact_delta: dict[str, int] = {}
        self.transfer_to_agent: str | None = None
        self.escalate: bool | None = None
        self.skip_summarization: bool | None = None

    def merge(self, later: Actions) -> None:
        """Take in the actions of a later call of the same response: booleans are or-ed, otherwise the later one wins."""
        self.state_delta.update(later.state_delta)
        self.artifact_delta.update(later.artifact_delta)
        self.transfer_to_agent = later.transfer_to_agent or self.transfer_to_agent
        self.escalate = self.escalate or later.escalate
        self.skip_summarization = self.skip_summarization or later.skip_summarization

    def freeze(self) -> EventActions:
        """As they ride on an event."""
        return EventActions(
            state_delta=dict(self.state_delta),
            artifact_delta=dict(self.artifact_delta),
            transfer_to_agent=self.transfer_to_agent,
            escalate=self.escalate,
            skip_summarization=self.skip_summarization,
        )


class ReadonlyContext:
    """Where the agent stands: for instructions that are functions.

    Attributes:
        agent_name: the agent that runs.
        invocation_id: the turn.
        user_id, session_id: whose conversation.
        user_content: the message that opened the turn.
    """

    def __init__(
        self,
        *,
        agent_name: str,
        invocation_id: str,
        user_id: str,
        session_id: str,
        user_content: Content,
        state: Mapping[str, Any],
    ) -> None:
        self.agent_name = agent_name
        self.invocation_id = invocation_id
        self.user_id = user_id
        self.session_id = session_id
        self.user_content = user_content
        self._state = state

    @property
    def state(self) -> Mapping[str, Any]:
        """Session state by prefixed keys, all scopes."""
        return MappingProxyType(self._state) if isinstance(self._state, dict) else self._state


class CallbackContext(ReadonlyContext):
    """For callbacks: state can be written, artifacts saved, memory searched.

    What is written rides on the event that the callback belongs to.
    """

    def __init__(self, *, artifacts: ArtifactAccess, memory: MemoryAccess, actions: Actions | None = None, **where: Any) -> None:
        super().__init__(**where)
        self.actions = actions or Actions()
        self._artifacts = artifacts
        self._memory = memory
        self._writable = State(self._state, self.actions.state_delta)

    @property
    def state(self) -> State:
        """Session state by prefixed keys, all scopes; what is assigned is stored with the event."""
        return self._writable

    async def save_artifact(self, filename: str, part: Part) -> int:
        """Store an artifact and return its version, from 0. Raises InvalidIdError, ArtifactError."""
        version = await self._artifacts.save(filename, part)
        self.actions.artifact_delta[filename] = version
        return version

    async def load_artifact(self, filename: str, version: int | None = None) -> Part | None:
        """The artifact of that version, or the latest; None when there is none."""
        return await self._artifacts.load(filename, version)

    async def list_artifacts(self) -> list[str]:
        """The names of all artifacts that the session sees, sorted; `user:` ones are of all the user's sessions."""
        return await self._artifacts.keys()

    async def search_memory(self, query: str) -> list[MemoryEntry]:
        """What is remembered of the user that has a word in common with the query, the best first, at most 10.

        Raises:
            NoMemoryError: the app has no memory.
            StoreError: the store could not do it.
        """
        return await self._memory.search(query)


class ToolContext(CallbackContext):
    """For tools.

    Attributes:
        function_call_id: the call that is being answered; the same when it is repeated after a crash.
        offload: runs a function where the resources are that it needs.
    """

    def __init__(self, *, function_call_id: str, offload: Offload, ask: Ask | None = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.function_call_id = function_call_id
        self.offload = offload
        self._ask = ask

    async def ask_agent(self, name: str, content: Content) -> tuple[AnyOutcome, str]:
        """Ask an agent that the running one has as an AgentTool: how its run ended, and what it said at last.

        Raises:
            UnknownAgentError: there is no such tool agent.
        """
        if self._ask is None:
            raise UnknownAgentError(name, " No agent can be asked outside of a run.")
        return await self._ask(name, self.function_call_id, content)

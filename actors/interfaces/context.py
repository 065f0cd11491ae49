"""The seam between a behaviour and the agent's actor: what a behaviour knows of its run, and what it can have done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actors.interfaces.access import ArtifactAccess, Inbox, LogAccess, Offload, Reach
from actors.interfaces.clock import Clock
from actors.interfaces.telemetry import RunTelemetry
from actors.messages.config import RunConfig
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.json_types import JsonMapping, JsonValue
from actors.messages.protocol.runs import AnyOutcome, Finished
from actors.rules.prompt.history import History


class RunContext(Protocol):
    """What the contexts of behaviours and of custom agents have in common; InvocationContext describes its attributes."""

    agent_name: str
    invocation_id: str
    user_id: str
    session_id: str
    branch: str | None
    run_config: RunConfig
    user_content: Content

    @property
    def artifacts(self) -> ArtifactAccess:
        """The session's artifacts."""
        ...

    @property
    def state(self) -> JsonMapping:
        """Session state by prefixed keys, as of the last event; to change it, yield an event with a state_delta."""
        ...


class Context(RunContext, Protocol):
    """What a behaviour is given.

    Attributes:
        streaming: deliver model responses in partial events as well.
        node_path: of the run of a node of a graph, its path; "" for any other.
        retried_seq: failures up to this place in the log do not count: the turn was retried after them.
        resume_at: where a run goes on after a pause: at these children, or at the agent itself if its own question was
            answered. Empty when the run begins.
        is_resumed: the run was begun before, and was lost with its process.
        done: its events until then, oldest first, without its notes of progress.
        user_seq: the place of the message that the run answers: the one that opened the turn last, or a question to a tool.
        has_messages: messages may wait in the inbox, or be in the log since others have read them.
        offload: runs tools that need resources of their own.
        telemetry: learns of the run's model calls and tool calls.
        clock: the time by which it waits before it runs something again.
    """

    streaming: bool
    offload: Offload
    telemetry: RunTelemetry
    retried_seq: int
    resume_at: tuple[str, ...]
    node_path: str
    is_resumed: bool
    done: Sequence[Event]
    user_seq: int
    has_messages: bool
    clock: Clock

    def notify(self) -> None:
        """Messages may wait for the run."""

    @property
    def inbox(self) -> Inbox:
        """Messages to agents of the turn, of the user and of other agents."""
        ...

    @property
    def reach(self) -> Reach:
        """Gives tools of features what they need."""
        ...

    @property
    def log(self) -> LogAccess:
        """The session's log, for user code."""
        ...

    @property
    def words_seq(self) -> int:
        """The place of the user's last words to the run, which works on a task with the user; 0 without any."""
        ...

    async def view(self) -> History:
        """Return the log as the agent sees it, up to and with the last event emitted."""
        ...

    async def emit(self, event: Event, *, is_last: bool = False) -> Event:
        """Store a complete event of the run; only deliver a partial one.

        Author, ids, timestamp and branch are filled in where they are empty. `temp:` keys of its state_delta are kept for the
        turn and not stored.

        Args:
            is_last: the run ends with this event: it returns Finished next, and does nothing else.

        Returns:
            The event as it was stored.

        Raises:
            NotEncodableError: something in it has no wire form.
            FencedError: the turn was taken over or has ended.
        """
        ...

    async def emit_all(self, events: Sequence[Event], *, end: Finished | None = None) -> Sequence[Event]:
        """Store complete events together, or none of them.

        Args:
            end: the run ends with these events: it returns this outcome next, and does nothing else.

        Returns:
            The events as they were stored. Raises like `emit`.
        """
        ...

    async def record_all(self, events: Sequence[Event], *, end: Finished | None = None) -> Sequence[Event]:
        """Store events that plugins do not see: otherwise like `emit_all`."""
        ...

    async def ask_agent(self, name: str, call_id: str, content: Content) -> tuple[AnyOutcome, str]:
        """Run an agent that this one has as a tool, on a branch of its own.

        Args:
            call_id: the tool call for which it runs.
            content: the question, which it is given as the user's message.

        Returns:
            How the run ended, and the text of its last final response, "" without one.

        Raises:
            UnknownAgentError: the agent has no such tool.
            FencedError: the turn was taken over or has ended.
        """
        ...

    async def delegate(self, name: str, run_id: str, call_id: str, data: JsonValue) -> AnyOutcome:
        """Run a child as a node, for a call, on a branch of its own. Its events are below the agent's own path.

        Args:
            run_id: names the run in its path.
            call_id: the tool call for which it runs. Called again with it, the run goes on where it was.
            data: what the child is asked.

        Returns:
            How the run ended; Finished has its output. Paused: it waits for the user.

        Raises:
            FencedError: the turn was taken over or has ended.
        """
        ...

"""The seam between a behaviour and the actor that carries it out: one run of one agent in one turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from actors.interfaces.clock import Clock
from actors.messages.content import Content, Part
from actors.messages.event import Event
from actors.messages.flow import FlowMark, Work
from actors.messages.memory import MemoryEntry
from actors.messages.protocol.outcomes import AnyOutcome
from actors.rules.prompt.history import History
from actors.rules.prompt.task_history import TaskHistory


class ArtifactAccess(Protocol):
    """Artifacts of one session."""

    async def save(self, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises ArtifactError."""
        ...

    async def load(self, filename: str, version: int | None = None) -> Part | None:
        """The part of that version, or the latest; None when there is none."""
        ...

    async def keys(self) -> list[str]:
        """The names of all artifacts that the session sees, sorted."""
        ...


class MemoryAccess(Protocol):
    """What is remembered of one user."""

    async def search(self, query: str) -> list[MemoryEntry]:
        """What has a word in common with the query, the best first, at most 10. Raises NoMemoryError or StoreError."""
        ...


class Offload(Protocol):
    """Where tools run that need more than their agent's process has."""

    async def __call__(self, function: Callable[..., Any], arguments: Mapping[str, Any], needs: Mapping[str, Any]) -> Any:
        """Call a function, sync or async, away from the agent's event loop, and return its result.

        Args:
            needs: resources by the names num_cpus, num_gpus, memory and resources.

        Raises:
            Exception: what the function raises.
        """
        ...


class InvocationContext(Protocol):
    """What a CustomAgent is given.

    Attributes:
        agent_name: the agent that runs.
        invocation_id: the turn.
        user_id, session_id: whose conversation.
        branch: the parallel branch it runs on, None outside of any.
        user_content: the message that opened the turn.
        artifacts: the session's artifacts.
        memory: what is remembered of the user.
    """

    agent_name: str
    invocation_id: str
    user_id: str
    session_id: str
    branch: str | None
    user_content: Content
    artifacts: ArtifactAccess
    memory: MemoryAccess

    @property
    def state(self) -> Mapping[str, Any]:
        """Session state by prefixed keys, as of the last event; to change it, yield an event with a state_delta."""
        ...

    async def run_agent(self, name: str) -> AnyOutcome:
        """Run an agent that stands directly below this one, and return how its run ended.

        When that is Paused, the agent waits for the answer to a long-running call: return, and the turn is paused. With the
        answer `run` begins again; what it has said before is not said again, and an agent that has finished is not run again.

        Raises:
            UnknownAgentError: there is no such child; the message names the nearest.
            FencedError: the turn was taken over or has ended.
        """
        ...


class Context(InvocationContext, Protocol):
    """What a behaviour is given.

    Attributes:
        streaming: deliver answers in pieces as well.
        resume_at: a run that goes on after a pause: the children at which it does, or the agent itself when it is the one
            whose question was answered. Empty when the run begins.
        is_resumed: the run was begun before, and was lost with its process.
        done: what it had said until then, without its notes of progress.
        user_seq: the place of the user's event that opened the turn last.
        escalated: some event of the run, or below it, had `actions.escalate`.
        waiting: ids of the calls whose answers agents wait for that `run_agent` has run.
        offload: where tools run that need resources of their own.
    """

    streaming: bool
    offload: Offload
    resume_at: tuple[str, ...]
    is_resumed: bool
    done: Sequence[Event]
    user_seq: int
    escalated: bool
    waiting: Sequence[str]

    async def view(self) -> History:
        """The log as the agent sees it, up to and with the last event emitted."""
        ...

    async def emit(self, event: Event, *, is_last: bool = False) -> Event:
        """Make an event of the run known: a complete one is stored first, a partial one only delivered.

        With `is_last` the run ends with this event, and does nothing more but return that it is finished.

        Author, ids, timestamp and branch are filled in where they are empty. `temp:` keys of its state_delta
        are kept for the turn and not stored. Returns the event as it was stored.

        Raises:
            NotEncodableError: something in it has no wire form.
            FencedError: the turn was taken over or has ended.
        """
        ...

    async def emit_both(self, first: Event, second: Event) -> Event:
        """Make two complete events of the run known that are stored together, or neither: see `emit`. Returns the second."""
        ...

    async def ask_agent(self, name: str, call_id: str, content: Content) -> tuple[AnyOutcome, str]:
        """Run an agent that this one has as a tool, on a branch of its own.

        Args:
            call_id: the call that asks it.
            content: what it is asked, as the user's message.

        Returns:
            How the run ended, and the text of its last final response, "" without one.

        Raises:
            UnknownAgentError: the agent has no such tool.
            FencedError: the turn was taken over or has ended.
        """
        ...

    async def take_llm_call(self) -> None:
        """Count one model call. Raises LlmCallsLimitExceededError when the turn has none left."""
        ...


class SupervisorContext(Context, Protocol):
    """What the behaviour of a workflow agent is given.

    Attributes:
        progress: what it last noted, when the run goes on after a pause or a loss; else empty.
        noted_seq: the place of its last note, 0 without one.
        clock: the time by which it waits before it runs a child again.
    """

    progress: Mapping[str, Any]
    noted_seq: int
    clock: Clock

    async def run_child(
        self, name: str, *, branch: str | None = None, progress: Mapping[str, Any] | None = None, resume: bool = False
    ) -> AnyOutcome:
        """Run a child, on the branch given or the supervisor's own, and return how its run ended.

        Args:
            progress: noted while the child begins.
            resume: it may have been begun before this run was lost: what the log has of it counts as done.

        Raises:
            FencedError: the turn was taken over or has ended.
        """
        ...

    async def note(self, progress: Mapping[str, Any], custom_metadata: dict[str, Any] | None = None) -> None:
        """Leave in the log how far the run is, with what people are to read of it, if anything."""
        ...

    async def stop_branch(self, branch: str) -> None:
        """Stop every run on a branch that this agent began, or below it; returns when they have ended."""
        ...


class WorkContext(Context, Protocol):
    """What an agent is given that works in a flow, for one round.

    Attributes:
        llm_calls: model calls made so far.
    """

    llm_calls: int

    @property
    def work(self) -> Work:
        """What is wanted."""
        ...

    async def plan(self, definition: str) -> Any:
        """The definition of a flow, a FlowPlan. Raises FlowNotFoundError."""
        ...

    async def task_view(self) -> TaskHistory:
        """The log as an agent sees it that works in flows."""
        ...


class ControllerContext(Context, Protocol):
    """What the controller of a flow is given.

    Attributes:
        progress: what it last noted in this turn, when the run goes on; else empty.
        opened_seq: the place in the log of the message that it was asked with.
        noted_seq: the place in the log of its last note.
        is_turn: the end of the run is the end of the turn.
    """

    progress: Mapping[str, Any]
    noted_seq: int
    opened_seq: int
    is_turn: bool

    async def plan(self, definition: str) -> Any:
        """The definition of a flow, a FlowPlan. Raises FlowNotFoundError."""
        ...

    async def record(self, event: Event, *, is_last: bool = False) -> Event:
        """Like `emit`, for events that plugins are not shown."""
        ...

    async def work_round(self, agent: str, work: Work) -> AnyOutcome:
        """Have an agent, wherever in the tree it stands, do a round. Raises FencedError."""
        ...

    async def stop_rounds(self) -> None:
        """Stop the rounds that are under way; returns when they have ended."""
        ...

    async def marks(self, run: str, after_seq: int) -> list[tuple[str, FlowMark]]:
        """What the log behind a place says of a run of a flow: authors and marks, in order."""
        ...

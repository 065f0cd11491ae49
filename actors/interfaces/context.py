"""The seam between a behaviour and the agent's actor: what a behaviour knows of its run, and what it can have done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actors.interfaces.access import Offload, Reach
from actors.interfaces.clock import Clock
from actors.interfaces.run_context import RunContext
from actors.interfaces.session import LogAccess, RunSession
from actors.interfaces.telemetry import RunTelemetry
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue
from actors.messages.protocol.outcomes import AnyOutcome, Finished
from actors.rules.prompt.history import History


class InvocationContext(RunContext, Protocol):
    """What a CustomAgent is given.

    Attributes:
        agent_name: the agent that runs.
        invocation_id: the turn.
        user_id, session_id: whose conversation.
        branch: the parallel branch it runs on, None outside of any.
        run_config: the options of the turn.
        user_content: the message that opened the turn.
        artifacts: the session's artifacts.
        memory: the user's memory.
        state: session state by prefixed keys, as of the last event.
        done: the run's own events until it was lost or paused, oldest first; empty when it begins.
    """

    done: Sequence[Event]

    @property
    def session(self) -> RunSession:
        """The session, to look at: its ids, its state as it is now, and its events after `await session.read_events()`."""
        ...

    async def change_state(self, changes: JsonMapping) -> None:
        """Store changes of the state now, as an event does that has nothing else; None removes a key.

        Unlike an event that is yielded, it can come from anywhere in the agent's code, and is stored again when `run` begins
        again.

        Raises:
            NotEncodableError: a value is not JSON.
            FencedError: the turn was taken over or has ended.
        """
        ...

    async def run_agent(self, name: str) -> AnyOutcome:
        """Run an agent directly below this one, and return how its run ended.

        Who stops waiting, by `asyncio.timeout` for example, stops that run.

        When that is Paused, the agent waits for the answer to a long-running call: return, and the turn is paused. With the
        answer `run` begins again; events that it yielded before are not stored again, and an agent that has finished is not run
        again.

        Raises:
            UnknownAgentError: there is no such child; the message names the nearest.
            FencedError: the turn was taken over or has ended.
        """
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
    clock: Clock

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


class SupervisorContext(Context, Protocol):
    """What the behaviour of an agent is given that runs its children: a workflow agent, or a custom one.

    Attributes:
        progress: its last note, when the run goes on after a pause or a loss; else empty.
        noted_seq: the place of its last note, 0 without one.
        clock: the time by which it waits before it runs a child again.
    """

    progress: JsonMapping
    noted_seq: int
    clock: Clock

    async def run_child(
        self, name: str, *, branch: str | None = None, progress: JsonMapping | None = None, resume: bool = False
    ) -> AnyOutcome:
        """Run a child, on the branch given or the supervisor's own, and return how its run ended.

        Args:
            progress: is noted while the child begins; in the log it stands before anything of the child's run.
            resume: it may have been begun before this run was lost: then the log says how far it is.

        Raises:
            FencedError: the turn was taken over or has ended.
        """
        ...

    def repeat(self, event: Event) -> None:
        """The run says again what the log has of it already: nothing is stored."""
        ...

    async def note(self, progress: JsonMapping, custom_metadata: JsonObject | None = None) -> None:
        """Store how far the run is, and with it `custom_metadata` for people who read the log."""
        ...

    async def stop_branch(self, branch: str) -> None:
        """Stop every run on a branch that this agent began, or below it; returns when they have ended."""
        ...

    async def stop_child(self, name: str) -> None:
        """Stop the run of a child, and all below it; returns when they have ended. Raises FencedError."""
        ...

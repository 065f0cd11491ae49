"""What one run reaches besides its own events: artifacts, memory, schedules, the log, and the runs of other agents."""

from __future__ import annotations

from functools import cached_property

from actors.agent.children import Children
from actors.agent.environment import AgentEnvironment
from actors.agent.event_writer import EventWriter
from actors.agent.session_reader import SessionReader
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.access import ArtifactAccess, MemoryAccess
from actors.interfaces.session import LogAccess
from actors.interfaces.store_abilities.schedules import ScheduleAccess
from actors.messages import protocol as p
from actors.refs.access import RemoteLog, SessionArtifacts, UserMemory
from actors.refs.schedules import UserSchedules
from actors.rules.graph.answers import UserAnswers


class RunAccess:
    """Each is made when it is first asked for: most turns need none of them.

    Args:
        spec: the agent.
        message: what to run.
        environment: what the agents of this process share.
        reader, writer: of the run.

    Attributes:
        reader: reads the log and the state.
        writer: writes the run's events.
    """

    def __init__(
        self, spec: AgentSpec, message: p.Invoke, environment: AgentEnvironment, reader: SessionReader, writer: EventWriter
    ) -> None:
        self._agent = spec
        self._message = message
        self._environment = environment
        self.reader = reader
        self.writer = writer

    @cached_property
    def artifacts(self) -> ArtifactAccess:
        """The session's artifacts."""
        return SessionArtifacts(self._environment.artifacts, self._message.turn.key)

    @cached_property
    def memory(self) -> MemoryAccess:
        """The user's memory."""
        return UserMemory(self._environment.session, self._message.turn.key)

    @cached_property
    def schedules(self) -> ScheduleAccess:
        """The user's schedules."""
        return UserSchedules(self._environment.session, self._message.turn.key, self._environment.clock)

    @cached_property
    def log(self) -> LogAccess:
        """Reads the events for user code."""
        return RemoteLog(self._message.turn.key, self.reader.all_events)

    @cached_property
    def answers(self) -> UserAnswers:
        """The user's answers to questions of nodes."""
        return UserAnswers()

    @cached_property
    def children(self) -> Children:
        """Has other agents run."""
        return Children(self._agent, self._message, self._environment.runner, self.reader, self.writer)

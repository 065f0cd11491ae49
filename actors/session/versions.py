"""The version of the tree by which a turn runs. Here there is one; a feature that has several takes the place of this."""

from __future__ import annotations

from collections.abc import Callable

from actors.actor import Handlers
from actors.messages import protocol as p
from actors.messages.topology import Topology
from actors.session.environment import SessionEnvironment
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.store.access import StoreAccess


class SessionVersions:
    """The versions of the tree in a Session actor. Answers GetTopology.

    Args:
        environment: the tree with which the deployment was started.

    Attributes:
        current: the name of the version that new turns get.
    """

    def __init__(self, environment: SessionEnvironment) -> None:
        self.current = environment.version
        self._topology = environment.topology

    def handlers(self) -> Handlers:
        """Its messages."""
        return {p.GetTopology: self.get_topology}

    def topology(self, version: str) -> Topology:
        """The parent map of a version; that of the current one, if the deployment does not have it."""
        return self._topology

    def of_new(self, log: SessionLog) -> str:
        """The name of the version that a new turn of a session gets."""
        return self.current

    def go_on(self, log: SessionLog, turn: SessionTurn, seq: int) -> None:
        """Have a turn go on by its version, from a position of its log on, or by another one if the deployment lacks that."""

    async def get_topology(self, message: p.GetTopology) -> p.TopologyReply:
        """The parent map of the current version, unless it is known."""
        if message.known and message.known == self.current:
            return p.TopologyReply(version=self.current)
        return p.TopologyReply(topology=self.topology(self.current), version=self.current)


MakeVersions = Callable[[SessionEnvironment, StoreAccess], SessionVersions]
"""Makes the versions of a Session actor."""


def one_version(environment: SessionEnvironment, _: StoreAccess) -> SessionVersions:
    """Make one: all turns run by the tree with which the deployment was started."""
    return SessionVersions(environment)

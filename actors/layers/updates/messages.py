"""Updates: a program asks Session actors and Runners which versions of the tree are in use, and has new turns get others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from actors.layers.updates.versions import VersionRecord
from actors.messages.protocol.base import Ack, Lane, Message, Request, Route


class VersionsReply(Message, frozen=True, kw_only=True):
    """The names of versions."""

    versions: tuple[str, ...] = ()

    @classmethod
    def joined(cls, replies: Sequence[Self]) -> Self:
        """Each version once, in order."""
        return cls(versions=tuple(sorted({version for reply in replies for version in reply.versions})))


class GetVersions(Request[VersionsReply], frozen=True, kw_only=True):
    """Ask a Session actor with which versions of the tree turns have begun that are open or paused. It replies VersionsReply."""

    route = Route.ALL
    lane = Lane.DIRECT

    app: str


class LoadVersion(Request[Ack], frozen=True, kw_only=True):
    """Load a version of the tree that turns are to get: a Runner finds out whether it can. Raises ClusterError."""

    route = Route.ALL

    version: str


class UseVersions(Request[Ack], frozen=True, kw_only=True):
    """Go by another record of versions from now on. A Session actor, or a Runner, that has a newer one stays with it.

    The record is kept already where actors find it that are started again. Raises ClusterError when a version
    cannot be read or loaded.
    """

    route = Route.ALL
    lane = Lane.DIRECT

    record: VersionRecord

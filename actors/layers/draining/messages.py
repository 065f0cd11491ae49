"""Draining: a program has Runners refuse new turns, and asks all actors what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from actors.messages.protocol.base import Message
from actors.messages.protocol.request import Lane, Request, Route


class Draining(Message, frozen=True, kw_only=True):
    """What keeps a deployment from being drained.

    Attributes:
        left: from a Runner, turns that run, begin, end or wait in line; from a Session actor, subscribers with news to fetch.
    """

    left: int

    @classmethod
    def joined(cls, replies: Sequence[Self]) -> Self:
        """The sum of what is left."""
        return cls(left=sum(reply.left for reply in replies))


class Drain(Request[Draining], frozen=True, kw_only=True):
    """Begin no new turn for a while: the deployment is to be stopped. Sent again and again, while it drains.

    A Runner refuses new turns meanwhile. A Session actor only keeps it, for Runners that are started again. Both reply with
    Draining.

    Attributes:
        lease_s: for how long from now, in seconds; 0: new turns may begin again. A program that drains and is lost ends it so.
        since_s: when the drain began, in Unix seconds: what was asked for before is not new.
        wait_s: a Runner may reply so much later, as soon as nothing is left, in seconds.
    """

    route = Route.ALL
    lane = Lane.DIRECT

    lease_s: float
    since_s: float = 0.0
    wait_s: float = 0.0


class GetDrain(Request[Drain], frozen=True, kw_only=True):
    """A Runner that was started again asks a Session actor whether the deployment drains."""

    route = Route.FIRST
    lane = Lane.DIRECT

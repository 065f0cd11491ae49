"""The seam by which features join the Runner: a service has handlers of its own, and the core knows no service by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from actors.actor import Handlers
from actors.refs.session import SessionRef
from actors.runner.turns.place import RunnerPlace
from actors.runner.turns.recovery import TurnResumer
from actors.runner.turns.start import TurnStarter


class RunnerParts(NamedTuple):
    """What the services of one Runner work with.

    Attributes:
        place: this Runner's.
        app: the app.
        session: the Session actors.
        starter: starts turns.
        recovery: resumes those that have begun before.
    """

    place: RunnerPlace
    app: str
    session: SessionRef
    starter: TurnStarter
    recovery: TurnResumer


class RunnerService:
    """A feature of the Runner. It lives as long as the actor."""

    def handlers(self) -> Handlers:
        """The messages that it takes, each of them with its handler."""
        return {}

    def recover(self) -> None:
        """Go on with what this Runner did when its process was lost."""

    async def close(self) -> None:
        """Start nothing any more: the Runner stops."""


RunnerServices = Callable[[RunnerParts], Sequence[RunnerService]]
"""Makes the services of a Runner."""


def no_services(_: RunnerParts) -> Sequence[RunnerService]:
    """Make none: the Runner runs turns that are asked for."""
    return ()

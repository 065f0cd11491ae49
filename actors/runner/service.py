"""The seam by which features join the Runner: a service has handlers of its own, and the core knows no service by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from actors.actor import Handlers
from actors.refs import SessionRef
from actors.runner.admission import TurnAdmission
from actors.runner.environment import RunnerPlace
from actors.runner.recovery import TurnResumer
from actors.runner.start import TurnStarter
from actors.runner.turns import TurnTable, TurnTasks
from actors.runner.versions import TurnVersions


class RunnerParts(NamedTuple):
    """What the services of one Runner work with.

    Attributes:
        versions: of the tree. A feature may load further ones.
        table: the turns that run, begin, end or wait in line.
        admission: admits new turns. A feature may refuse them.
        recovery: resumes those that have begun before.
    """

    place: RunnerPlace
    app: str
    session: SessionRef
    versions: TurnVersions
    table: TurnTable
    tasks: TurnTasks
    admission: TurnAdmission
    starter: TurnStarter
    recovery: TurnResumer


class RunnerService:
    """A feature of the Runner. It lives as long as the actor."""

    def handlers(self) -> Handlers:
        """The messages that it takes, each of them with its handler."""
        return {}

    def figures(self) -> Mapping[str, int]:
        """Its part of the Runner's figures, which are added up over all Runners."""
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

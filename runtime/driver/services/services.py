"""The services of a Runtime and of its `aio`, and the operations that are declared with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from runtime.driver.engine_client import EngineClient
from runtime.driver.operation import AppOperation
from runtime.driver.services import background, batches, deployment, limits, memory, users
from runtime.driver.services.background import BackgroundService
from runtime.driver.services.batches import BatchesService
from runtime.driver.services.deployed_tree import DeployedTree
from runtime.driver.services.deployment import DeploymentMethods
from runtime.driver.services.limits import LimitsService
from runtime.driver.services.memory import MemoryService
from runtime.driver.services.schedules import SchedulesService
from runtime.driver.services.sessions import ArtifactsService, Follow, SessionsService
from runtime.driver.services.users import UsersService
from runtime.driver.turns import service as turns
from runtime.driver.turns.service import TurnsService
from runtime.driver.turns.turn import Turn
from runtime.driver.waits import M


class TurnCalls(NamedTuple):
    """Methods of a Runtime that start turns for its services, or follow a session."""

    run: Callable[..., Turn]
    answer: Callable[..., Turn]
    edit: Callable[..., Turn]
    follow: Follow


class Services(DeploymentMethods[M]):
    """All services, with the same names for both modes.

    Args:
        calls: of the Runtime.
    """

    def __init__(self, client: EngineClient, mode: type[M], tree: DeployedTree, calls: TurnCalls) -> None:
        super().__init__(client, mode)
        self._tree = tree
        self.sessions = SessionsService(client, mode, calls.follow)
        self.turns = TurnsService(client, mode, tree.topology, calls.answer, calls.edit)
        self.artifacts = ArtifactsService(client, mode)
        self.memory = MemoryService(client, mode)
        self.users = UsersService(client, mode)
        self.schedules = SchedulesService(client, mode, calls.run)
        self.batches = BatchesService(client, mode)
        self.background = BackgroundService(client, mode)
        self.limits = LimitsService(client, mode)


_MODULES = (turns, background, deployment, limits, batches, memory, users)

OPERATIONS: Sequence[AppOperation] = [each for module in _MODULES for each in module.OPERATIONS]
"""In the order in which the OpenAPI document and the help of the command have them."""

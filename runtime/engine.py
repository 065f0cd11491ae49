"""The seam between the driver and what makes actors live."""

from __future__ import annotations

from typing import Any, Protocol

from actors.runner import RunnerRef
from actors.session import SessionRef


class Engine(Protocol):
    """Where a deployment's actors live. All methods but `prepare` are called from one event loop.

    Attributes:
        session, runner: clients of the deployment's actors, once it is started.
    """

    session: SessionRef
    runner: RunnerRef

    def prepare(self) -> None:
        """Do first what has to be done in the thread of whoever starts the deployment. Raises as the engine's platform does."""
        ...

    async def start(self) -> None:
        """Bring the Session actor and the Runner to life.

        Raises:
            DeploymentExistsError: the app runs already.
            ClusterError: the actors do not answer.
        """
        ...

    async def define(self, name: str, plan: Any) -> None:
        """Make the definition of a flow known to all agents. Raises DefinitionError, when it cannot travel to them."""
        ...

    async def stop(self) -> None:
        """Stop all actors of the deployment; when it returns none of their processes is left."""
        ...

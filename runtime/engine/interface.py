"""The seam between the driver and what makes actors live."""

from __future__ import annotations

from typing import Any, Protocol

from actors.interfaces.stores import ArtifactStore
from actors.refs.limiter import LimiterRef
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef


class Engine(Protocol):
    """Where a deployment's actors live. All methods but `prepare` are called from one event loop.

    Attributes:
        session, runner: clients of the deployment's actors, once it is started.
        permits: a client of the actor that limits models; None where none is limited.
        artifact_store: where artifacts last; None as long as only the deployment knows.
        auto_create_session: what turns do that do not say it themselves.
        lasts: the deployment goes on when this driver leaves it.
    """

    @property
    def session(self) -> SessionRef:
        """A client of the Session actor."""
        ...

    @property
    def runner(self) -> RunnerRef:
        """A client of the Runner."""
        ...

    @property
    def permits(self) -> LimiterRef | None:
        """See above."""
        ...

    @property
    def artifact_store(self) -> str | ArtifactStore | None:
        """See above."""
        ...

    @property
    def auto_create_session(self) -> bool:
        """See above."""
        ...

    @property
    def lasts(self) -> bool:
        """See above."""
        ...

    def prepare(self) -> None:
        """Do first what has to be done in the thread of whoever starts the deployment. Raises as the engine's platform does."""
        ...

    async def start(self) -> None:
        """Bring the Session actor and the Runner to life, or find those of the deployment that is joined.

        Raises:
            DeploymentExistsError: the app runs already.
            DeploymentNotFoundError: the app that is to be joined does not.
            ClusterError: the actors do not answer.
        """
        ...

    async def leave(self) -> None:
        """Have no more to do with a deployment that lasts."""
        ...

    async def define(self, name: str, plan: Any) -> None:
        """Make the definition of a flow known to all agents. Raises DefinitionError, when it cannot travel to them."""
        ...

    async def stop(self) -> None:
        """Stop all actors of the deployment; when it returns none of their processes is left."""
        ...

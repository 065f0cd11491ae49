"""What a server has: the apps, who may use them, and its limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from actors.errors import DefinitionError, OverloadedError, RuntimeClosedError
from actors.errors.suggestions import did_you_mean
from actors.messages.config import RunConfig
from runtime.driver.runtime import Runtime
from runtime.frontends.web.auth.principal import Auth
from runtime.frontends.web.bodies import Bodies
from runtime.frontends.web.pass_line import PassLines
from runtime.frontends.web.problems import NotFoundError
from runtime.frontends.web.readiness import Readiness
from runtime.frontends.web.recent import RecentFigures
from runtime.frontends.web.shedding import Shedding
from runtime.frontends.web.streams.slots import StreamSlots


class Served:
    """What the routes of a server share.

    Args:
        runtimes: of the apps that are served.
        auth: says on whose behalf a request comes.
        slots: counts open streams.
        run_config: options of turns that clients leave out, and limits that users may not raise.
        bodies: what the bodies of requests may take.
        keep_alive_s: after so many seconds without a frame a stream sends a comment.

    Attributes:
        runtimes: by the names of their apps.
        requests: how many there were, by method and path, and by status.
        readiness: whether the apps answer.
        recent: their figures over the last minutes.
        shedding: which new turns are refused unread.
        lines: of turns that have begun or ended, until the answers to their requests go on.

    Raises:
        DefinitionError: there is no app, or two of the same name.
    """

    def __init__(
        self,
        runtimes: Sequence[Runtime],
        auth: Auth,
        slots: StreamSlots,
        *,
        run_config: RunConfig,
        bodies: Bodies,
        keep_alive_s: float,
    ) -> None:
        if not runtimes:
            raise DefinitionError("app_for needs a Runtime at least")
        self.runtimes = {runtime.app_name: runtime for runtime in runtimes}
        if len(self.runtimes) < len(runtimes):
            raise DefinitionError(f"two apps have the same app_name: {', '.join(each.app_name for each in runtimes)}")
        self.auth = auth
        self.slots = slots
        self.run_config = run_config
        self.bodies = bodies
        self.keep_alive_s = keep_alive_s
        self.requests: Counter[tuple[str, int]] = Counter()
        self.readiness = Readiness(self.runtimes)
        self.recent = RecentFigures(self.runtimes)
        self.shedding = Shedding(self._refusal, slots.refusal)
        self.lines = PassLines()

    def _refusal(self, *, again: bool, unread: int) -> OverloadedError | None:
        """The error that any new turn would get, of whichever app; None when one of them is to be asked, or cannot be."""
        try:
            refusals = [runtime.refusal(again=again, unread=unread) for runtime in self.runtimes.values()]
        except RuntimeClosedError:
            return None
        return refusals[0] if None not in refusals else None

    def runtime(self, app_name: str) -> Runtime:
        """The Runtime of an app. Raises NotFoundError."""
        runtime = self.runtimes.get(app_name)
        if runtime is None:
            raise NotFoundError(f"no app {app_name!r} is served here.{did_you_mean(app_name, self.runtimes)}")
        return runtime

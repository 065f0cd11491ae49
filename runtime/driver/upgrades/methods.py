"""A deployment goes on with another release of raygrove: it drains and stops, and the next one starts on the same stores.

A notice, which Ray keeps, is there from before the drain until the next deployment has started. By it programs that have joined
wait for that, and an upgrade that was lost on the way is gone on with: the next start of the app takes over the trees that it
names.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from actors.errors import ClusterError, DefinitionError, RaygroveError, RequestError, UpgradeRefusedError
from actors.errors.calls import explains_all_wrong_calls
from actors.messages.operating.upgrades import UpgradeReport
from actors.rules.versions.upgrading import upgrade_refusal
from runtime.driver.ending import EndMethods
from runtime.driver.engine_client import EngineClient
from runtime.driver.turns.service import TurnsService
from runtime.driver.waits import Blocking

if TYPE_CHECKING:
    from runtime.cluster.deployment.engine import RayEngine
    from runtime.driver.upgrades.outlook import Deployed

WITHIN_S = 60.0
"""How long turns may take to end, by default. Those that take longer are gone on with."""

STARTS = 3
"""How often the next deployment is tried to be started."""

RETRY_S = 1.0


@explains_all_wrong_calls
class UpgradeMethods(EndMethods):
    """The method of a Runtime that has another one take its deployment's place."""

    _client: EngineClient
    turns: TurnsService[Blocking]

    def upgrade(
        self, successor: UpgradeMethods, *, within_s: float | None = WITHIN_S, force: bool = False, dry_run: bool = False
    ) -> UpgradeReport:
        """Have a deployment of this program's release of raygrove take this one's place. On an event loop: `rt.aio.upgrade`.

        New turns are refused with the time to ask again, those that run may end, and paused ones stay paused. Then this
        deployment stops, and the successor starts on its stores and goes on with turns that are open. Programs that have joined,
        and servers, stay up and follow their turns on. Each turn goes on by the version of the tree that it began with.

        Args:
            successor: a Runtime of the same app, not started yet, with `detached=True` and the same stores; this Runtime is
                closed when it runs.
            within_s: the time that turns have to end; None: any. Those that run longer go on in the successor, as after a loss.
            force: programs that cannot speak with the new release, and turns whose trees cannot be kept, are left behind.
            dry_run: only tell what would be done.

        Returns:
            What was found, and done.

        Raises:
            UpgradeRefusedError: the new release cannot go on with the deployment. Nothing was changed.
            RequestError: an argument is wrong.
            ClusterError, StoreError: actors or a store do not answer; or the successor did not start. Then the deployment has
                stopped, nothing that is stored is lost, and the next start of the app goes on with it.
        """
        from runtime.cluster.upgrading.lease import held_connection, told_upgrade
        from runtime.driver.upgrades.outlook import kept_versions, look_ahead

        began_s = time.monotonic()
        self._open_turns()
        old, new = _engines(self._client, successor)
        counts = self._client.run(self._client.session.count_turns(self.app_name))
        has_versions = bool(self._client.run(old.trees.record()).current)
        in_use = self._client.run(self._client.session.versions_in_use(self.app_name)) if has_versions else ()
        report, notice = look_ahead(old, new, in_use)
        report = msgspec.structs.replace(report, running=counts.running, waiting=counts.waiting, paused=counts.paused)
        refusal = upgrade_refusal(report, is_forced=force)
        if refusal is not None:
            raise UpgradeRefusedError(self.app_name, *refusal)
        if dry_run:
            return msgspec.structs.replace(report, dry_run=True, took_s=time.monotonic() - began_s)
        with held_connection(new.deployment.settings, old.address or ""), told_upgrade(old.notices, notice) as told:
            try:
                drained = self.drain(within_s)
            except BaseException:
                # It goes on, or has ended: no other one comes.
                old.notices.forget_upgrade()
                raise
            stopped_s = time.monotonic()
            told.tell_versions(kept_versions(old))
            _start(successor, report)
            away_s = time.monotonic() - stopped_s
            successor.turns.resume()
        left = sum(turn.state != "waiting" for turn in drained.left)
        return msgspec.structs.replace(report, left=left, away_s=away_s, took_s=time.monotonic() - began_s)


def _engines(client: EngineClient, successor: UpgradeMethods) -> tuple[Deployed, RayEngine]:
    """The engines of both. Raises RequestError where one of them cannot take part in an upgrade."""
    app, old, new = client.app_name, client.engine, successor._client.engine
    if old.address is None:
        raise RequestError(f"app {app!r} is on the local engine, which ends with its program: start that again")
    from runtime.cluster.deployment.engine import RayEngine
    from runtime.cluster.deployment.joined import JoinedEngine

    assert isinstance(old, RayEngine | JoinedEngine)
    if not isinstance(new, RayEngine) or not new.lasts or successor._client.is_open:
        raise RequestError("the successor must be a Runtime with detached=True, on Ray, that is not started yet")
    if successor.app_name != app:
        raise RequestError(f"the successor must be of app {app!r}, not of {successor.app_name!r}")
    return old, new


def _start(successor: UpgradeMethods, report: UpgradeReport) -> None:
    """Start the next deployment. Raises ClusterError: it does not start."""
    for tries_left in reversed(range(STARTS)):
        try:
            successor.start()
        except RaygroveError as error:
            if isinstance(error, DefinitionError) or not tries_left:
                raise ClusterError(_not_started(successor.app_name, report, error)) from error
            time.sleep(RETRY_S)
        else:
            return


def _not_started(app: str, report: UpgradeReport, error: RaygroveError) -> str:
    tables = [
        f"{store.store} from version {store.before} of its tables to {store.after}"
        for store in report.stores
        if store.before < store.after
    ]
    back = (
        f"It may have brought {' and '.join(tables)}, which the release before refuses: to go back, restore the backup"
        if tables
        else "The release before can be started on the same stores as well"
    )
    return (
        f"app {app!r} has stopped, and {report.release_after} did not start it: {error}. Nothing that is stored is lost, and "
        f"{report.paused} paused turns and those that are open wait for the next start. {back}"
    )

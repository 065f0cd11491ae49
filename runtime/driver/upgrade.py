"""A deployment goes on with another release of raygrove: it drains and stops, and the next one starts on the same stores.

Ray keeps a notice of it from the stop until the next deployment has started. Programs that have joined wait for that one. The
next start of the app takes over the trees that the notice names, also where the program that upgrades was lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from actors.errors import ClusterError, DefinitionError, RaygroveError, RequestError, UpgradeRefusedError
from actors.layers.updates.versions import TreeVersion
from actors.messages.event import now_s
from actors.messages.shown import Shown
from runtime.driver.ending import drain
from runtime.driver.engine_client import EngineClient
from runtime.driver.turns.program_turns import ProgramTurns
from runtime.engine.store_urls import shown_session_store

if TYPE_CHECKING:
    from runtime.cluster.deployment.engine import RayEngine
    from runtime.cluster.deployment.joined import JoinedEngine


WITHIN_S = 60.0
"""How long turns may take to end, by default. Longer ones go on in the successor."""

STARTS = 3
"""How often the next deployment is tried to be started."""

RETRY_S = 1.0


class Successor(NamedTuple):
    """The deployment that takes another one's place."""

    client: EngineClient
    start: Callable[[], object]
    resume: Callable[[], object]


def upgrade(client: EngineClient, turns: ProgramTurns, successor: Successor, within_s: float | None) -> UpgradeReport:
    """Have a successor take a deployment's place: see Runtime.upgrade."""
    from runtime.cluster.deployment.connection import held_connection
    from runtime.cluster.notices import UpgradeNotice, this_release

    began_s = time.monotonic()
    turns.client()
    old, new = _engines(client, successor)
    record = old.kept.record()
    current = old.kept.found(record.current) if record.current else None
    after = new.deployment.tree.version
    if current is not None:
        _check_parts(client.app_name, current, after)
    _check_stores(old, new)
    told = old.notices.deployment()
    before = told if told is not None and told.deployment == old.kept.deployment else None
    notice = UpgradeNotice(deployment=old.kept.deployment, before=before.before if before is not None else ())

    def tell() -> None:
        nonlocal notice
        # Another program may have updated the tree meanwhile.
        until_s = now_s() + STARTS * (new.deployment.settings.start_timeout_s + RETRY_S)
        notice = msgspec.structs.replace(notice, versions=tuple(old.kept.loadable()), until_s=until_s)
        old.notices.put(notice)

    with held_connection(new.deployment.settings, old.address or ""):
        drained = drain(client, turns, within_s, before_stop=tell)
        stopped_s = time.monotonic()
        try:
            _start(client.app_name, successor, str(this_release()))
        except BaseException:
            # It stays for the next start of the app, and programs wait no longer.
            old.notices.put(msgspec.structs.replace(notice, until_s=0.0))
            raise
        away_s = time.monotonic() - stopped_s
        successor.resume()
    return UpgradeReport(
        release_before=str(before.release) if before is not None else "",
        release_after=str(this_release()),
        version_before=current.id if current is not None else "",
        version_after=after.id,
        kept=[each for each in notice.versions if each != after.id],
        left=sum(turn.state != "waiting" for turn in drained.left),
        paused=drained.paused,
        away_s=away_s,
        took_s=time.monotonic() - began_s,
    )


def _engines(client: EngineClient, successor: Successor) -> tuple[RayEngine | JoinedEngine, RayEngine]:
    """The engines of both. Raises RequestError where one of them cannot take part in an upgrade."""
    app, old, new = client.app_name, client.engine, successor.client.engine
    if old.address is None:
        raise RequestError(f"app {app!r} is on the local engine, which ends with its program: start that again")
    from runtime.cluster.deployment.engine import RayEngine
    from runtime.cluster.deployment.joined import JoinedEngine

    assert isinstance(old, RayEngine | JoinedEngine)
    if not isinstance(new, RayEngine) or not new.lasts or successor.client.is_open:
        raise RequestError("the successor must be a Runtime with detached=True, on Ray, that is not started yet")
    if successor.client.app_name != app:
        raise RequestError(f"the successor must be of app {app!r}, not of {successor.client.app_name!r}")
    return old, new


def _check_parts(app: str, before: TreeVersion, after: TreeVersion) -> None:
    """Refuse a tree without what only the program knows that has given the one before. Raises UpgradeRefusedError."""
    if before.is_masked and not after.is_masked:
        reason = "what is recorded of its requests is masked, by a function that the new one does not have"
        raise UpgradeRefusedError(app, reason, "Give mask_requests, in a program: see Runtime.upgrade")
    if after.plugins < before.plugins:
        reason = f"it has {before.plugins} plugins, and the new one has {after.plugins}"
        raise UpgradeRefusedError(app, reason, "Give plugins, in a program: see Runtime.upgrade")


def _check_stores(old: RayEngine | JoinedEngine, new: RayEngine) -> None:
    """Refuse stores on which the deployment does not run, as they say. Raises UpgradeRefusedError, StoreError."""
    from runtime.stores.sql.owners import owner_of

    app = new.deployment.app_name
    for store, _ in new.deployment.stores:
        if isinstance(store, str) and owner_of(store, app) not in (None, old.kept.deployment):
            raise UpgradeRefusedError(
                app,
                f"it runs on another store than {shown_session_store(store)}",
                "Give the stores on which it runs: files are in .raygrove below the folder where it was started, or in data_dir",
            )


def _start(app: str, successor: Successor, release: str) -> None:
    """Start the next deployment. Raises ClusterError: it does not start."""
    for tries_left in reversed(range(STARTS)):
        try:
            successor.start()
        except RaygroveError as error:
            if isinstance(error, DefinitionError) or not tries_left:
                raise ClusterError(
                    f"app {app!r} has stopped, and {release} did not start it: {error}. Nothing that is stored is "
                    "lost: open and paused turns wait for the next start"
                ) from error
            time.sleep(RETRY_S)
        else:
            return


class UpgradeReport(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an upgrade has done.

    Attributes:
        release_before: the raygrove of the deployment, in words; "": one that does not say so.
        release_after: the raygrove of the program that upgrades it.
        version_before, version_after: the versions of the tree that new turns get; "": there were no versions.
        kept: other versions of the tree that the new deployment has taken over.
        left: turns that had not ended when the deployment stopped, and that the new one goes on with.
        paused: turns that wait for answers.
        away_s: for how long no deployment was there, in seconds.
        took_s: how long it all took, in seconds.
    """

    release_before: str
    release_after: str
    version_before: str
    version_after: str
    kept: Sequence[str] = ()
    left: int = 0
    paused: int = 0
    away_s: float = 0.0
    took_s: float = 0.0

"""The notice of an upgrade, renewed for as long as the program that upgrades lives."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from actors.messages.event import now_s
from runtime.cluster.deployment.connection import RayConnection
from runtime.cluster.notices.notices import UNREADABLE, Notices, UpgradeNotice
from runtime.settings import Settings

LEASE_S = 15.0
"""For how long programs wait for a deployment whose upgrade was not heard of since."""

BEAT_S = 2.0


@contextmanager
def held_connection(settings: Settings, address: str) -> Iterator[None]:
    """Stay connected with a Ray during the block, whichever engines end in it. Raises ClusterError."""
    connection = RayConnection(settings, address, may_start=False)
    connection.open()
    try:
        yield
    finally:
        connection.close()


class ToldUpgrade:
    """The notice of an upgrade.

    Args:
        notices: of the app.
        notice: its content.
    """

    def __init__(self, notices: Notices, notice: UpgradeNotice) -> None:
        self._notices = notices
        self._notice = notice
        self._over = threading.Event()
        self._lock = threading.Lock()

    def tell(self, until_s: float) -> None:
        """Tell of it again, as something for which programs wait until then."""
        with self._lock, suppress(*UNREADABLE):
            if not self._over.is_set():
                self._notices.put_upgrade(msgspec.structs.replace(self._notice, until_s=until_s))

    def tell_versions(self, versions: Sequence[str]) -> None:
        """Tell of other versions of the tree, which the next deployment takes over."""
        with self._lock:
            self._notice = msgspec.structs.replace(self._notice, versions=tuple(versions))
        self.tell(now_s() + LEASE_S)

    def renew(self) -> None:
        """Tell of it again and again, until it is over or there is the notice of another one."""
        while not self._over.wait(BEAT_S):
            told = self._notices.upgrade()
            if told is None or told.deployment != self._notice.deployment:
                return
            self.tell(now_s() + LEASE_S)

    def end(self) -> None:
        """Tell of it no more."""
        with self._lock:
            self._over.set()


@contextmanager
def told_upgrade(notices: Notices, notice: UpgradeNotice) -> Iterator[ToldUpgrade]:
    """Tell of an upgrade while the block runs. The deployment that starts in it takes the notice away.

    Where the block fails the notice stays for the next start of the app, and programs wait no longer.
    """
    told = ToldUpgrade(notices, notice)
    notices.put_upgrade(msgspec.structs.replace(notice, until_s=now_s() + LEASE_S))
    thread = threading.Thread(target=told.renew, name="upgrade", daemon=True)
    thread.start()
    try:
        yield told
    except BaseException:
        told.tell(0.0)
        raise
    finally:
        told.end()
        thread.join()

"""What programs of all versions of raygrove can read of a deployment, without a word to its actors.

Ray's control service keeps these notices. Rules of this file:

- Notices are JSON: what reads them may have another version of raygrove, which knows fewer fields of them, or more.
- They outlive the deployment's processes. One that names another deployment than the one that runs is old, and means nothing.
- An upgrade's notice says until when programs wait. After that the program that upgrades was lost, or has given up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec
from ray.exceptions import RayError

from actors.layers.trees.version import this_version
from actors.messages import codec
from actors.messages.event import now_s
from actors.messages.shown import Shown
from runtime.cluster.ray import key_values

_HOME = Path(__file__).parents[2]
_PACKAGES = ("actors", "raygrove", "runtime")


class Release(Shown, msgspec.Struct, frozen=True):
    """A raygrove.

    Attributes:
        version: as the package has it.
        code: a fingerprint of its sources.
    """

    version: str
    code: str

    def __str__(self) -> str:
        return f"raygrove {self.version} (code {self.code})"


@cache
def this_release() -> Release:
    """The raygrove that this process has loaded. Called early, since its files may be replaced while it runs."""
    mark = hashlib.blake2b(digest_size=5)
    for package in _PACKAGES:
        for file in sorted((_HOME / package).rglob("*.py")):
            mark.update(file.relative_to(_HOME).as_posix().encode())
            mark.update(file.read_bytes())
    return Release(this_version(), mark.hexdigest())


MOST_BEFORE = 50
"""Deployments before that a notice names."""


class DeploymentNotice(msgspec.Struct, frozen=True, kw_only=True):
    """What a deployment speaks.

    Attributes:
        before: ids of the deployments in whose place it is by upgrades, the newest last: programs may still look for them.
    """

    name: ClassVar[str] = "deployment"
    deployment: str
    release: Release
    protocol: int
    before: tuple[str, ...] = ()


class SourceNotice(msgspec.Struct, frozen=True, kw_only=True):
    """Where the tree of a deployment comes from.

    Attributes:
        stores: of sessions, as the command was told; None: it was not.
        paths: of the code on the machine of the command, by versions of the tree, the newest last. Those are missing that no
            command has given.
    """

    name: ClassVar[str] = "source"
    deployment: str
    stores: Sequence[str] | None = None
    paths: dict[str, str]


class UpgradeNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment is stopped so that another version of raygrove goes on with it.

    Attributes:
        versions: of its tree, which the next deployment takes over.
        until_s: programs wait for the next deployment until then, in seconds since the epoch.
        before: see DeploymentNotice.
    """

    name: ClassVar[str] = "upgrade"
    deployment: str
    versions: tuple[str, ...] = ()
    until_s: float = 0.0
    before: tuple[str, ...] = ()

    @property
    def is_under_way(self) -> bool:
        """The next deployment is to be expected."""
        return now_s() < self.until_s

    @property
    def all_before(self) -> tuple[str, ...]:
        """The deployments before the next one."""
        return (*self.before, self.deployment)[-MOST_BEFORE:]


S = TypeVar("S", DeploymentNotice, SourceNotice, UpgradeNotice)


class Notices:
    """The notices of one app. All methods block their thread, and raise RayError or RuntimeError where Ray does not answer."""

    def __init__(self, namespace: str, app_name: str) -> None:
        self._app = f"{namespace}/{app_name}@"

    def put(self, notice: DeploymentNotice | SourceNotice | UpgradeNotice) -> None:
        """Keep a notice, in place of the one of its kind."""
        key_values.put(self._app + notice.name, msgspec.json.encode(notice))

    def deployment(self) -> DeploymentNotice | None:
        """The release and the protocol of the deployment; None where it does not say so, or there is none."""
        return self._read(DeploymentNotice)

    def forget_deployment(self, deployment: str) -> None:
        """It has ended. What was told since of the next one stays."""
        told = self.deployment()
        if told is not None and told.deployment == deployment:
            key_values.delete(self._app + DeploymentNotice.name)
        if self.source(deployment) is not None:
            key_values.delete(self._app + SourceNotice.name)

    def source(self, deployment: str) -> SourceNotice | None:
        """Where the tree of a deployment comes from; None where that was not told."""
        told = self._read(SourceNotice)
        return told if told is not None and told.deployment == deployment else None

    def upgrade(self) -> UpgradeNotice | None:
        """The upgrade of the app, if one has begun and is not done."""
        return self._read(UpgradeNotice)

    def forget_upgrade(self) -> None:
        """The upgrade is done."""
        key_values.delete(self._app + UpgradeNotice.name)

    def _read(self, kind: type[S]) -> S | None:
        raw = key_values.value_of(self._app + kind.name)
        try:
            return codec.decode_json(raw, kind) if raw else None
        except msgspec.MsgspecError:
            # Of a version with other notices.
            return None


UNREADABLE = (RayError, RuntimeError)
"""What reading or writing a notice raises where Ray does not answer."""

MOST_PATHS = 16
"""Versions whose paths are kept. A deployment keeps one before the current one, one with a share, and those of open turns."""


def tell_source(
    namespace: str,
    app_name: str,
    path: str,
    version: str,
    stores: Sequence[str] | None = None,
    before: SourceNotice | None = None,
) -> None:
    """Tell where a tree comes from that a deployment has got. This process is connected with its Ray.

    Args:
        path: of the code: a folder or a file, maybe with an attribute behind a colon, or a module.
        stores: of sessions, as the command was told; None: it was not, or the same as before.
        before: what was told of the deployment that an upgrade has replaced.
    """
    file, colon, attribute = path.partition(":")
    where = f"{Path(file).absolute()}{colon}{attribute}" if Path(file).exists() else path
    with suppress(*UNREADABLE):
        notices = Notices(namespace, app_name)
        told = notices.deployment()
        if told is not None:
            before = notices.source(told.deployment) or before
            known = stores if before is None or stores is not None else before.stores
            others = {id: path for id, path in before.paths.items() if id != version} if before is not None else {}
            paths = dict([*others.items(), (version, where)][-MOST_PATHS:])
            notices.put(SourceNotice(deployment=told.deployment, stores=known, paths=paths))


def source_of(namespace: str, app_name: str) -> SourceNotice | None:
    """Where the trees of a deployment come from; None where no command has told it. Raises what UNREADABLE names."""
    notices = Notices(namespace, app_name)
    told = notices.deployment()
    return notices.source(told.deployment) if told is not None else None

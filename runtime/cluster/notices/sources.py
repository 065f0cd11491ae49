"""Where the tree of a deployment comes from: told by the commands that give it one, for those that need it again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runtime.cluster.notices.notices import UNREADABLE, Notices, SourceNotice

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
            notices.put_source(SourceNotice(deployment=told.deployment, path=where, stores=known, paths=paths))


def source_of(namespace: str, app_name: str) -> SourceNotice | None:
    """Where the trees of a deployment come from; None where no command has told it. Raises what UNREADABLE names."""
    notices = Notices(namespace, app_name)
    told = notices.deployment()
    return notices.source(told.deployment) if told is not None else None

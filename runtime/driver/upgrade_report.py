"""The report of an upgrade of raygrove under a deployment."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.shown import Shown


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

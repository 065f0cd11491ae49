"""What an upgrade of raygrove under a deployment finds, and what it has done."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.operating.versions import TreeDifference
from actors.messages.shown import Shown


class StoreUpgrade(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The tables of a store.

    Attributes:
        store: in words, without a password.
        before: the version of its tables; 0: there are none yet.
        after: the version that the new release knows, to which it brings them.
        is_owned: the deployment that is upgraded runs on this store, as the store says. True also of one that does not say.
    """

    store: str
    before: int
    after: int
    is_owned: bool = True


class JoinedProgram(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A program that has joined the deployment.

    Attributes:
        program: its name, process and host.
        release: its raygrove, in words.
        can_stay: it speaks what the new release speaks.
    """

    program: str
    release: str
    can_stay: bool


class NodeRelease(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What processes on a node load.

    Attributes:
        node: its address.
        release: its raygrove, in words; or why that is not known.
        is_new: it is the new release.
    """

    node: str
    release: str
    is_new: bool


class UpgradeReport(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an upgrade has done, or with `dry_run` would do.

    Attributes:
        release_before: the raygrove of the deployment, in words; "": one that does not say so.
        release_after: the raygrove of the program that upgrades it.
        version_before, version_after: the versions of the tree that new turns get; "": of a release that has none.
        difference: how these trees differ.
        kept: versions of the tree that the deployment has kept, and keeps.
        given_up: versions by which turns are open or paused, and whose trees cannot be kept: such turns go on with the new tree.
        stores: the stores of sessions and memory.
        programs: programs that have joined, of releases that say so.
        nodes: the nodes of the Ray.
        settings: settings that differ, in words.
        running, waiting, paused: turns, when it began.
        left: turns that had not ended when the deployment stopped, and that the new one goes on with.
        away_s: for how long no deployment was there, in seconds.
        took_s: how long it all took, in seconds.
        dry_run: nothing was done.
    """

    release_before: str
    release_after: str
    version_before: str
    version_after: str
    difference: TreeDifference = TreeDifference()
    kept: Sequence[str] = ()
    given_up: Sequence[str] = ()
    stores: Sequence[StoreUpgrade] = ()
    programs: Sequence[JoinedProgram] = ()
    nodes: Sequence[NodeRelease] = ()
    settings: Sequence[str] = ()
    running: int = 0
    waiting: int = 0
    paused: int = 0
    left: int = 0
    away_s: float = 0.0
    took_s: float = 0.0
    dry_run: bool = False

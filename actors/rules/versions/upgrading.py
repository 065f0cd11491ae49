"""Whether another release of raygrove can go on with a deployment.

Rules of this file:

- What would end in a deployment that does not start is refused, whatever is forced.
- What would leave a program or a turn behind is refused, unless that is asked for.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.errors.listing import some_of
from actors.messages.operating.upgrades import UpgradeReport

SHOWN = 3
"""Programs and nodes that are named."""


class UpgradeRefusal(NamedTuple):
    """Why it cannot, and what to do."""

    reason: str
    advice: str


def upgrade_refusal(found: UpgradeReport, *, is_forced: bool = False) -> UpgradeRefusal | None:
    """Why the deployment cannot be upgraded; None when it can.

    Args:
        is_forced: programs and turns may be left behind.
    """
    return _of_stores(found) or _of_nodes(found) or (None if is_forced else _of_programs(found) or _of_turns(found))


def _of_stores(found: UpgradeReport) -> UpgradeRefusal | None:
    for store in found.stores:
        if store.before > store.after:
            return UpgradeRefusal(
                f"{store.store} has version {store.before} of its tables, and {found.release_after} knows up to {store.after}",
                "Upgrade to a raygrove that is as new as the one that has written it",
            )
        if not store.is_owned:
            return UpgradeRefusal(
                f"it runs on another store than {store.store}",
                "Give the stores on which it runs: files are in .raygrove below the folder where it was started, or in data_dir",
            )
    return None


def _of_nodes(found: UpgradeReport) -> UpgradeRefusal | None:
    others = [node for node in found.nodes if not node.is_new]
    if not others:
        return None
    named = some_of([f"{node.node} ({node.release})" for node in others], SHOWN)
    return UpgradeRefusal(
        f"its processes would not have {found.release_after} on {'this node' if len(others) == 1 else 'these nodes'}: {named}",
        "Install it on all nodes, where their Ray finds it, or upgrade from an environment that they have",
    )


def _of_programs(found: UpgradeReport) -> UpgradeRefusal | None:
    strangers = [f"{each.program} with {each.release}" for each in found.programs if not each.can_stay]
    if not strangers:
        return None
    return UpgradeRefusal(
        f"programs have joined that cannot speak with {found.release_after}: {some_of(strangers, SHOWN)}",
        "End them first, or force it: they get errors until they are started with that release",
    )


def _of_turns(found: UpgradeReport) -> UpgradeRefusal | None:
    if not found.given_up:
        return None
    return UpgradeRefusal(
        f"turns are open or paused by versions of its tree that cannot be kept: {some_of(list(found.given_up), SHOWN)}",
        "`raygrove turns` with --version tells which: have them end first, or force it: they go on with the new tree",
    )

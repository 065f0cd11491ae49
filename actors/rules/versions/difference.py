"""How two versions of a tree differ."""

from __future__ import annotations

from actors.messages.operating.versions import TreeDifference, TreeVersion


def tree_difference(before: TreeVersion, after: TreeVersion) -> TreeDifference:
    """The agents that were added, changed, removed, or touched by what was: each is in one of the lists."""
    if before.id == after.id:
        return TreeDifference()
    old, new = before.definition_prints, after.definition_prints
    kept = old.keys() & new.keys()
    changed = {name for name in kept if old[name] != new[name]}
    actors = before.actor_prints, after.actor_prints
    touched = {name for name in kept - changed if actors[0][name] != actors[1][name]}
    return TreeDifference(
        added=sorted(new.keys() - old.keys()),
        changed=sorted(changed),
        removed=sorted(old.keys() - new.keys()),
        touched=sorted(touched),
    )

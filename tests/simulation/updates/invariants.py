"""What has to hold for an edition: no turn is lost, and each runs by one version, which new turns got when it began."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.simulation.updates.play import Left, Played
from tests.simulation.world import EPOCH_S

_TREE = re.compile(r"tree (\d+)")


def problems(left: Left) -> list[str]:
    """What does not hold."""
    found = list(left.problems)
    for played in left.played:
        found += [f"{played.wish.invocation_id}: {each}" for each in _of_turn(left, played)]
    return found


def _of_turn(left: Left, played: Played) -> Iterator[str]:
    if (played.ended, played.status) != ("Finished", "finished"):
        yield f"it ended as {played.ended} ({played.error}), and is {played.status} in the store"
        return
    if played.version not in left.numbers:
        yield f"it has version {played.version!r}, which is none"
        return
    number = left.numbers[played.version]
    texts = [event.text for event in played.log]
    keys = [str(call.args.get("key", "")) for event in played.log for call in event.function_calls()]
    said = {int(tree) for each in (*texts, *keys) for tree in _TREE.findall(each)}
    if said != {number}:
        yield f"it has version {played.version}, tree {number}, and ran by {sorted(said)}"
    # The message has the time at which it was asked; its turn had its version when the agent began.
    begun_s = played.log[1].timestamp - EPOCH_S
    given = {
        version
        for kept_s, known_s, record in left.records
        if kept_s <= begun_s and known_s >= played.asked_s
        for version in record.given
    }
    if played.version not in given:
        yield f"it began with tree {number}, when new turns got {sorted(left.numbers[each] for each in given)}"

"""The flow definitions that agents can look up."""

from __future__ import annotations

import pytest

from actors.errors import FlowNotFoundError
from runtime.engine.deployment import MAX_ADDED, FlowRegistry


async def test_the_least_recently_used_definition_is_dropped_and_those_of_the_tree_never() -> None:
    flows = FlowRegistry({"of the tree": "plan"})
    for number in range(MAX_ADDED):
        flows.add(f"f{number}", f"plan {number}")
    assert await flows.find("f0") == "plan 0"
    flows.add("one more", "plan")
    assert flows.get("f1") is None
    assert [flows.get(name) for name in ("f0", "f2", "one more", "of the tree")] == ["plan 0", "plan 2", "plan", "plan"]
    with pytest.raises(FlowNotFoundError):
        await flows.find("f1")

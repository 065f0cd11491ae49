"""Where a paused turn goes on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from actors.messages.protocol.turns import TurnProgress
from actors.messages.topology import AgentNode, Topology
from actors.rules.routing.branches import agent_of_key, state_key
from actors.rules.routing.resumption import agent_state, child_after_seq, child_towards, entry, through_flows
from tests.support.fixtures.topologies import topologies
from tests.support.tries import tries


def tree() -> Topology:
    """chat → flow (sequential) → (ask → helper, many (parallel) → (one, two)); chat → desk."""
    nodes = [
        ("chat", "llm", None),
        ("flow", "sequential", "chat"),
        ("desk", "llm", "chat"),
        ("ask", "llm", "flow"),
        ("many", "parallel", "flow"),
        ("helper", "llm", "ask"),
        ("one", "llm", "many"),
        ("two", "llm", "many"),
    ]
    return Topology.of(
        tuple(
            AgentNode(name=name, kind=kind, parent=parent, children=tuple(each[0] for each in nodes if each[2] == name))
            for name, kind, parent in nodes
        )
    )


@pytest.mark.parametrize(
    ("caller", "scope", "expected"),
    [
        ("chat", None, "chat"),
        ("desk", None, "desk"),
        ("ask", None, "flow"),
        ("helper", None, "flow"),
        ("one", None, "flow"),
        ("ask", "ask", "ask"),
        ("helper", "ask", "helper"),
        ("one", "many", "many"),
        ("one", "one", "one"),
    ],
)
def test_a_turn_is_entered_at_the_topmost_supervisor_above_who_asked(caller: str, scope: str | None, expected: str) -> None:
    assert entry(tree(), caller, scope) == expected


@pytest.mark.parametrize(
    ("parent", "caller", "expected"),
    [
        ("flow", "ask", "ask"),
        ("flow", "helper", "ask"),
        ("flow", "two", "many"),
        ("many", "two", "two"),
        ("many", "ask", None),
        ("two", "two", None),
        ("chat", "desk", "desk"),
    ],
)
def test_a_supervisor_goes_on_at_the_child_that_has_who_asked_at_or_below_it(
    parent: str, caller: str, expected: str | None
) -> None:
    assert child_towards(tree(), parent, caller) == expected


@settings(max_examples=tries(200))
@given(topologies())
def test_whoever_asked_is_reached_from_the_entry_child_by_child(topology: Topology) -> None:
    for node in topology.nodes:
        at = entry(topology, node.name)
        above = [each.name for each in topology.lineage(at)][1:]
        assert all(topology[name].is_llm for name in above)
        while at != node.name:
            child = child_towards(topology, at, node.name)
            assert child in topology[at].children
            assert topology.is_below(node.name, child)
            # Within that child, as the Runner asks for it.
            at = child
        assert entry(topology, node.name, node.name) == node.name


@pytest.mark.parametrize(
    ("noted", "expected"),
    [
        (None, 5),
        ((9, {}), 5),
        ((9, {"child": "b"}), 5),
        ((9, {"child": "a"}), 9),
        ((9, {"child": "a", "since": 7}), 7),
        # The supervisor did not know where it began itself.
        ((9, {"child": "a", "since": 0}), 5),
        ((9, {"child": "b", "begun": {"a": 8}}), 8),
        # Stored by an earlier run.
        ((4, {"child": "a"}), 5),
        ((4, {"begun": {"a": 3}}), 5),
    ],
)
def test_a_child_began_where_its_supervisor_has_noted_it(noted: tuple[int, dict[str, Any]] | None, expected: int) -> None:
    assert child_after_seq(noted, "a", 5) == expected


def test_an_agent_that_is_several_nodes_at_a_time_keeps_the_progress_of_each() -> None:
    keys = [state_key("steps", "wf.a", path) for path in ("wf@1/steps@1", "wf@1/steps@2", "")]
    assert len(set(keys)) == 3
    assert {agent_of_key(key) for key in keys} == {"steps"}
    progress = TurnProgress(agent_states={key: (seq, {"child": str(seq)}) for seq, key in enumerate(keys, start=5)})
    assert agent_state(progress, "steps", "wf.a", 0, "wf@1/steps@2") == (6, {"child": "6"})
    assert agent_state(progress, "steps", "wf.a", 6, "wf@1/steps@2") == (0, {})
    # The answer to an agent of a flow that is a node leads to the flow.
    flow = TurnProgress(agent_states={state_key("colours", None, "wf@1/colours@1"): (5, {"agents": ["h"]})})
    assert through_flows(["h"], flow) == ["colours"]

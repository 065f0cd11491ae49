"""The model of agents notices what a log says otherwise than it must."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from actors import Content, Event
from tests.model.conversation import Conversation
from tests.model.said import is_said
from tests.simulation.play import play
from tests.simulation.scenarios import Act, Node, Scenario, Step

replaced: Callable[..., Event] = msgspec.structs.replace


def llm(name: str, *steps: Step, **more: object) -> Node:
    return msgspec.structs.replace(Node(kind="llm", name=name, steps=steps), **more)


WORK, ASK, CONFIRM, EXIT = (Step(does=does) for does in ("work", "ask", "confirm", "exit"))

TREES = [
    llm("root", WORK, Step(does="transfer", to="below"), children=[llm("below", CONFIRM)]),
    llm("root", Step(does="hand", to="below"), WORK, children=[llm("below", WORK, ASK)]),
    llm("root", Step(does="expert", to="expert"), experts=[llm("expert", Step(does="work", often=2))]),
    Node(kind="loop", name="root", children=[llm("first", WORK, EXIT), llm("second", WORK)], times=3),
    Node(kind="par", name="root", children=[llm("asks", ASK), llm("works", WORK, WORK), Node(kind="says", name="says", times=2)]),
    Node(kind="seq", name="root", children=[llm("fails", fails=1), llm("works")], supervision="restart"),
    Node(kind="loop", name="root", children=[llm("fails", fails=2), llm("works")], supervision="skip", times=2),
    llm(
        "root",
        Step(does="note"),
        Step(does="transfer", to="below"),
        told=["asked_0", "below_out"],
        children=[llm("below", Step(does="murmur"), Step(does="break"), manners=["brief", "lists", "hooked"])],
    ),
    Node(kind="custom", name="root", children=[llm("works", WORK), Node(kind="flow", name="flow", tasks=[[], [0], [0]])]),
]


@pytest.fixture(params=TREES, ids=lambda tree: f"{tree.kind} of {len(tree.children) + len(tree.experts)}")
def played(request: pytest.FixtureRequest) -> tuple[Node, Sequence[Event]]:
    """A tree, and the log of a turn and another one without faults."""
    result, _ = play(Scenario(root=request.param))
    return request.param, result.log


def problems(root: Node, log: Sequence[Event]) -> list[str]:
    turns = {event.invocation_id: "" for event in log}
    return Conversation(root, log, turns, lambda turn: False, has_faults=False).problems


def test_a_log_is_as_it_must_be(played: tuple[Node, Sequence[Event]]) -> None:
    assert problems(*played) == []


def test_an_event_that_is_missing_is_noticed(played: tuple[Node, Sequence[Event]]) -> None:
    root, log = played
    for event in _by_agents(log):
        assert problems(root, [each for each in log if each is not event]), event


def test_an_event_too_many_is_noticed(played: tuple[Node, Sequence[Event]]) -> None:
    root, log = played
    for event in _by_agents(log):
        assert problems(root, [again for each in log for again in ([each, each] if each is event else [each])]), event


def test_an_event_that_says_or_writes_something_else_is_noticed(played: tuple[Node, Sequence[Event]]) -> None:
    root, log = played
    for event in _by_agents(log):
        others = [
            replaced(event, content=Content.of_text("something else", role="model")),
            replaced(event, author=root.name if event.author != root.name else "else"),
            replaced(event, branch="elsewhere"),
            replaced(event, actions=msgspec.structs.replace(event.actions, state_delta={"other": 1})),
            replaced(event, actions=msgspec.structs.replace(event.actions, escalate=not event.actions.escalate)),
        ]
        for other in others:
            assert problems(root, [other if each is event else each for each in log]), other


def test_a_turn_may_fail_once_more_in_another_branch_after_a_retry() -> None:
    works = llm("works", Step(does="work", takes_s=0.3), WORK)
    root = Node(kind="par", name="root", children=[works, llm("says"), llm("thinks", WORK, fails=1, thinks_s=0.5)])
    retried = [[], [Act(deed="retry", after_s=0.1)]]
    result, _ = play(Scenario(root=root, turns=[[], []], between=retried, max_calls=4))
    failed = [event.author for event in result.log if event.error_code and event.invocation_id == "turn-1"]
    assert failed == ["works", "thinks"]
    played = Conversation(root, result.log, result.turns, lambda turn: False, max_calls=4, has_faults=False)
    assert played.problems == []


def test_a_failure_behind_that_of_an_agent_above_is_noticed() -> None:
    root = Node(kind="seq", name="root", children=[llm("works")])
    result, _ = play(Scenario(root=root))
    message, said = (event for event in result.log[:3] if is_said(event))
    failed = replaced(said, content=None, error_code="StoreUnavailableError")
    assert problems(root, [message, failed, replaced(failed, author="root", seq=failed.seq + 1)]) == []
    assert problems(root, [message, replaced(failed, author="root"), replaced(failed, seq=failed.seq + 1)])


def _by_agents(log: Sequence[Event]) -> list[Event]:
    return [event for event in log if is_said(event) and event.author != "user"]

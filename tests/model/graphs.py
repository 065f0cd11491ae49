"""8 Graphs: nodes, which are agents, one after the other or side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from actors import Content, Event, Part
from tests.model.agents import begin_llm, steps
from tests.model.runs import Ended, Run, StoppedError, Turn, at_once, run
from tests.simulation.scenarios import Node

ATTEMPTS = 4


def graph(turn: Turn, node: Node, branch: str | None) -> Run:
    """8 Nodes and edges: when a node has ended, its edges are followed. Where one end leads to several nodes, each runs on a
    branch of its own, `name@number`.

    8 Inputs: a node behind START is given the message that the turn began with, any other the output of the node before.
    """
    first, *others = node.children
    ended = yield from _node(turn, node, first, branch, turn.message.text)
    if node.times > 1 and not ended.error:
        own = [".".join(filter(None, [branch, f"{other.name}@1"])) if len(others) > 1 else branch for other in others]
        given = ended.said
        ended = yield from at_once(turn, [_node(turn, node, *each, given) for each in zip(others, own, strict=True)])
        others = []
    for other in others:
        if not ended.error:
            ended = yield from _node(turn, node, other, branch, ended.said)
    return Ended(error=ended.error)


def _node(turn: Turn, node: Node, agent: Node, branch: str | None, given: str) -> Run:
    """8 Failures: with `retry_config` a node is tried again: it begins anew with the same input. `timeout` bounds each attempt.
    A turn that is retried counts anew."""
    failed: list[int] = []
    while True:
        try:
            ended = yield from run(turn, agent, branch, partial(_attempt, given=given))
        except StoppedError:
            turn.fail(node.name, branch, "NodeTimeoutError")
            ended = Ended(error="NodeTimeoutError")
        if not ended.error:
            return ended
        failed.append(max((each.seq for each in turn.failures), default=0))
        counted_from = max((seq for seq in turn.voided if seq <= failed[-1]), default=-1)
        if sum(seq > counted_from for seq in failed) >= ATTEMPTS:
            return ended


def _attempt(turn: Turn, agent: Node, branch: str | None, given: str) -> Run:
    """8 Inputs: an agent is asked its input as one user message. It sees that and its own run, not the attempt before."""
    asked = Event(author="user", content=Content(role="user", parts=[Part(text=given)]), invocation_id=turn.invocation_id)
    before = len(_own(turn, agent))

    def seen() -> Sequence[Event]:
        return [asked, *_own(turn, agent)[before:]]

    turn.silent.add(agent.name)
    begin_llm(turn, agent, branch)
    return (yield from steps(turn, agent, branch, seen))


def _own(turn: Turn, agent: Node) -> list[Event]:
    """What the agent has said in the turn, and the answers to its calls."""
    calls = {call.id for event in turn.log if event.author == agent.name for call in event.function_calls()}
    return [
        event
        for event in turn.log
        if event.invocation_id == turn.invocation_id
        and (event.author == agent.name or any(response.id in calls for response in event.function_responses()))
    ]

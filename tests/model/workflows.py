"""4 Workflow agents run their children and see only how each run ended."""

from __future__ import annotations

from collections import Counter

from tests.model.runs import LIMITS, Ended, Run, Turn, at_once, run
from tests.simulation.scenarios import Node

MAX_RESTARTS = 3


def sequence(turn: Turn, node: Node, branch: str | None) -> Run:
    """4 SequentialAgent: it runs each child once, in order. An escalation does not cut it short; it travels up."""
    escalated, restarts = False, Counter[str]()
    for child in node.children:
        ended = yield from supervised(turn, node, child, branch, branch, restarts)
        escalated |= ended.escalated
        if ended.error:
            return ended._replace(escalated=escalated)
    return Ended(escalated=escalated)


def loop(turn: Turn, node: Node, branch: str | None) -> Run:
    """4 LoopAgent: it runs its children in order, again and again. After an escalation no later child and no further iteration
    begins. "propagate" ends every enclosing loop as well, "absorb" only this one."""
    restarts = Counter[str]()
    for _ in range(node.times):
        for child in node.children:
            ended = yield from supervised(turn, node, child, branch, branch, restarts)
            if ended.error or ended.escalated:
                return ended._replace(escalated=ended.escalated and not node.absorbs)
    return Ended()


def parallel(turn: Turn, node: Node, branch: str | None) -> Run:
    """4 ParallelAgent: it runs all children at once, each on the branch `[<branch>.]<parallel>.<child>`.

    An escalation ends neither its author nor the siblings; it travels up. The first failure that goes up cancels the siblings.
    Pauses: the siblings run to their end. It is done when every paused child has its answer, in whatever order they come.
    """
    restarts = Counter[str]()
    branches = [".".join(filter(None, [branch, node.name, child.name])) for child in node.children]
    runs = [supervised(turn, node, child, own, branch, restarts) for child, own in zip(node.children, branches, strict=True)]
    ended = yield from at_once(turn, runs)
    turn.may_have_failed(node.name, branch)
    return ended


def supervised(turn: Turn, node: Node, child: Node, branch: str | None, own: str | None, restarts: Counter[str]) -> Run:
    """4 Supervision: "" lets the failure go up, "restart" runs the child again from its beginning, "skip" goes on as if it were
    done. Each decision is stored before it takes effect. Limits of the whole turn always go up. One that has given up decides no
    more, also when the turn is retried.

    Args:
        branch: the child's.
        own: the supervisor's.
    """
    escalated = False
    while True:
        ended = yield from run(turn, child, branch)
        escalated |= ended.escalated
        if not ended.error or not node.supervision:
            return ended._replace(escalated=escalated)
        is_used_up = node.supervision == "restart" and restarts[child.name] == MAX_RESTARTS
        decision = "escalate" if ended.error in LIMITS or is_used_up else node.supervision
        decided: dict[str, object] = {"decision": decision, "child": child.name}
        if decision == "restart":
            restarts[child.name] += 1
            decided |= {"attempt": restarts[child.name], "of": MAX_RESTARTS}
        said = turn.event(node.name, own, agent_state={}, custom_metadata={"supervision": decided})
        if (node.name, own) in turn.gave_up and not turn.is_next(said):
            return Ended(error=ended.error, escalated=escalated)
        turn.say(said)
        if decision != "restart":
            return Ended(error=ended.error if decision == "escalate" else "", escalated=escalated)

"""4 Workflow agents run their children and see only how each run ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from actors import Content, Event, FunctionCall, FunctionResponse, Part
from tests.model.agents import begin_llm, steps
from tests.model.runs import LIMITS, MODEL_CALLS, Ended, FailedError, Run, StoppedError, Turn, at_once, run
from tests.model.said import workers_of
from tests.model.shown import is_seen
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


def flow(turn: Turn, node: Node, branch: str | None) -> Run:
    """7: a task is worked on when everything that it needs is complete; ready tasks are worked on side by side.

    A flow that is part of a tree says the results of the tasks that no other task needs. An agent whose run fails ends the flow.
    """
    yield from ()
    results = {}
    # The one that has failed has stopped the others.
    for number, worker in sorted(enumerate(workers_of(node)), key=lambda each: turn.says_failure(each[1], branch)):
        try:
            results[number] = _round(turn, worker, f"{node.name}_t{number}", branch)
        except FailedError as failed:
            if failed.author != worker:
                raise
            turn.fail(worker, branch, failed.error)
            turn.stop()
            return Ended(error=failed.error)
    turn.may_have_failed(node.name, branch)
    needed = {need for needs in node.tasks for need in needs}
    last = {f"{node.name}_t{number}": result for number, result in sorted(results.items()) if number not in needed}
    text = "\n".join(f"{task}: {result}" for task, result in last.items()) if len(last) > 1 else "".join(last.values())
    turn.say(turn.event(node.name, branch, Part(text=text)))
    return Ended()


def _round(turn: Turn, worker: str, task: str, branch: str | None) -> str:
    """7 Rounds: a round is one model call, with its tools. The agent works, and finishes its task when it is shown that last."""
    finish = f"succeed_{task}"
    result, key = f"{finish} by {worker}", f"{worker}_{finish}"
    while True:
        turn.use(MODEL_CALLS, worker, branch)
        is_work = not _has_worked(turn, worker, branch)
        name, args = ("work", {"key": key, "s": 0.05}) if is_work else (finish, {"result": result})
        said = turn.say(turn.event(worker, branch, Part(function_call=FunctionCall(id=turn.new_id(), name=name, args=args))))
        call = next(said.function_calls())
        if is_work:
            turn.ran.append(call.id or "")
        response = FunctionResponse(id=call.id, name=name, response={"result": key} if is_work else {"status": "successful"})
        delta = {key: key} if is_work else {}
        turn.say(turn.event(worker, branch, Part(function_response=response), role="user", state_delta=delta))
        if not is_work:
            return result


def _has_worked(turn: Turn, worker: str, branch: str | None) -> bool:
    """7 What an agent sees: its own events, and those that belong to no task, also of turns behind which its own was retried."""
    for event in reversed(turn.seen(worker, branch)):
        responses = [response.name for response in event.function_responses()]
        if event.author == worker and event.content is not None:
            return "work" in responses
        if (responses or event.text) and is_seen(event.branch, branch) and not turn.tree.is_worker(event.author):
            return False
    return False


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

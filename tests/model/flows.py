"""7 Flows: tasks, and the agents that work on them."""

from __future__ import annotations

from actors import FunctionCall, FunctionResponse, Part
from tests.model.runs import MODEL_CALLS, Ended, FailedError, Run, Turn
from tests.model.said import workers_of
from tests.model.shown import is_seen
from tests.simulation.scenarios import Node


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

"""What the area controlflow of vectors.yaml does with a case.

Cases that run a flow use the public API. The other cases ask the controller's own rules for one round, with the log that
leads there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from actors import Content, Event, Flow, FlowMark, LlmAgent, Task, TaskChange
from actors.errors import DefinitionError
from actors.layers.flows.behaviour.controller import seeded_draw
from actors.layers.flows.behaviour.round import task_tools
from actors.layers.flows.rules.board import Board
from actors.layers.flows.rules.prompt import END_TURN, TaskHistory, fail_tool, is_controllers, succeed_tool
from actors.layers.flows.rules.turn_order import TurnScheduler, candidates, peers
from actors.messages.event import USER
from actors.rules.prompt.compiler import FOREIGN_MARK
from actors.testing import ScriptedModel
from tests.support.vectors.shared_runtimes import SESSION_ID, CaseRuntime
from tests.support.vectors.vector_agents import TOOLS
from tests.support.vectors.vector_notation import Case, VectorError, checked_keys

RUN = "r"
_DEFINED = ("ask", "agents", "tasks", "goal")
_TYPES: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "dict": dict}


def is_run(case: Case) -> bool:
    """True for a case whose flow is run."""
    return case.area == "controlflow" and case.given.get("ask") == "run"


def check_rules(case: Case) -> None:
    """Every ask but `run`."""
    ask = str(case.given.get("ask"))
    if ask not in _ASKS:
        raise VectorError(f"{case.id}: unknown ask {ask!r}")
    _ASKS[ask](case)


def _flow(given: Mapping[str, Any], agents: Sequence[Any], **options: Any) -> Flow:
    return Flow([_task(name, task or {}) for name, task in given["tasks"].items()], agents=agents, **options)


def _task(name: str, given: Mapping[str, Any]) -> Task:
    checked_keys(given, "agents", "after", "type", "on_failed", of=f"task {name!r}")
    options: dict[str, Any] = {}
    if "type" in given:
        options["result_type"] = _TYPES[given["type"]] if isinstance(given["type"], str) else given["type"]
    if "on_failed" in given:
        options["on_failed_dependency"] = given["on_failed"]
    return Task(f"do {name}", name=name, agents=given.get("agents") or (), depends_on=given.get("after") or (), **options)


def _agents(given: Mapping[str, Any]) -> list[LlmAgent]:
    own = given.get("own") or {}
    tools = {name: [TOOLS[tool]() for tool in own.get(name) or ()] for name in given["agents"]}
    return [LlmAgent(name=name, model=ScriptedModel([]), tools=tools[name]) for name in given["agents"]]


def _created(flow: Flow, given: Mapping[str, Any]) -> FlowMark:
    return FlowMark(run=RUN, goal=tuple(given.get("goal") or flow.plan.goal), created=flow.plan.nodes)


def _board(flow: Flow, given: Mapping[str, Any]) -> Board:
    board = Board()
    board.add("", _created(flow, given))
    return board


def _check_define(case: Case) -> None:
    given = checked_keys(case.given, *_DEFINED, "error", of=case.id)
    with pytest.raises(DefinitionError) as raised:
        _flow(given, _agents(given))
    words = [given["error"]] if isinstance(given["error"], str) else given["error"]
    assert all(word in str(raised.value) for word in words), f"{words}: {raised.value}"


def _check_ready(case: Case) -> None:
    given = checked_keys(case.given, *_DEFINED, "do", "expect", "status", of=case.id)
    board = _board(_flow(given, _agents(given)), given)
    seen = [set(board.ready())]
    for step in given.get("do") or ():
        board.add("", FlowMark(run=RUN, changes=_change(step)))
        board.add("", FlowMark(run=RUN, changes=board.skipped_by_failures()))
        seen.append(set(board.ready()))
    assert seen == [set(ready) for ready in given["expect"]]
    if "status" in given:
        assert board.status == given["status"]


def _change(step: Mapping[str, Any]) -> dict[str, TaskChange]:
    match checked_keys(step, "succeed", "fail", of="what happens"):
        case {"succeed": task, **rest} if not rest:
            return {task: TaskChange(status="successful")}
        case {"fail": task, **rest} if not rest:
            return {task: TaskChange(status="failed")}
    raise VectorError(f"{step!r} is nothing that happens")


def _check_agent(case: Case) -> None:
    given = checked_keys(case.given, *_DEFINED, "active", "ended", "strategy", "expect", of=case.id)
    flow = _flow(given, _agents(given), turn_strategy=given.get("strategy", "round_robin"))
    board = _board(flow, given)
    pool = candidates(board, board.ready())
    active = given.get("active")
    if active is not None:
        board.add("", FlowMark(run=RUN, turns={active: pool.get(active, ())}))
    if "ended" in given:
        board.add(str(active), FlowMark(run=RUN, ends_turn=True, next_agent=given["ended"]))
    # One agent at a time: the case asks for the choice of one round, not for parallel ones.
    chosen = TurnScheduler(msgspec.structs.replace(flow.plan.rules, max_parallel=1), board, seeded_draw).assign()[0]
    expect = checked_keys(given["expect"], "candidates", "agent", "tasks", of=case.id)
    if "candidates" in expect:
        assert set(pool) == set(expect["candidates"])
    if "agent" in expect:
        assert chosen.agent == expect["agent"]
    if "tasks" in expect:
        assert set(chosen.tasks) == set(expect["tasks"])


def _check_sees(case: Case) -> None:
    given = checked_keys(case.given, *_DEFINED, "log", "reader", "expect", of=case.id)
    assert [text for content in _contents(given) for text in _texts(content)] == given["expect"]


def _texts(content: Content) -> list[str]:
    """The texts, without the words that name their author."""
    texts = [part.text or "" for part in content.parts]
    if texts[0] == FOREIGN_MARK:
        return [text.partition(" said: ")[2] for text in texts[1:]]
    return texts


def _check_contents(case: Case) -> None:
    given = checked_keys(case.given, *_DEFINED, "log", "reader", "expect", of=case.id)
    contents = _contents(given)
    assert [content.role for content in contents] == [role for role, _ in given["expect"]]
    for content, (_, words) in zip(contents, given["expect"], strict=True):
        assert all(word in content.text for word in words), f"{words}: {content.text!r}"


def _contents(given: Mapping[str, Any]) -> list[Content]:
    reader = checked_keys(given["reader"], "agent", "tasks", of="the reader")
    view = TaskHistory(reader["agent"])
    view.add(Event(author="flow", flow=_created(_flow(given, _agents(given)), given)))
    for entry in given["log"]:
        checked_keys(entry, "by", "task", "text", of="an event of the log")
        content = Content.of_text(entry["text"], role=USER if entry["by"] == USER else "model")
        mark = FlowMark(run=RUN, tasks=(entry["task"],)) if "task" in entry else None
        view.add(Event(author=entry["by"], content=content, flow=mark))
    return view.contents_for(RUN, reader["tasks"])


def _check_tools(case: Case) -> None:
    given = checked_keys(case.given, *_DEFINED, "own", "reader", "expect", of=case.id)
    reader = checked_keys(given["reader"], "agent", "tasks", of="the reader")
    agents = _agents(given)
    flow = _flow(given, agents)
    board = _board(flow, given)
    tasks = reader["tasks"]
    own = next(agent.tools for agent in agents if agent.name == reader["agent"])
    names = set(task_tools(reader["agent"], own, flow.plan, board, tasks, peers(board, reader["agent"], tasks)).by_name)
    seen = {
        "succeed": [task for task in board.nodes if succeed_tool(task) in names],
        "fail": [task for task in board.nodes if fail_tool(task) in names],
        "end_turn": END_TURN in names,
        "own": sorted(name for name in names if not is_controllers(name)),
    }
    expect = checked_keys(given["expect"], *seen, of=case.id)
    assert {key: _in_any_order(seen[key]) for key in expect} == {key: _in_any_order(value) for key, value in expect.items()}


def _in_any_order(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


_ASKS: Mapping[str, Callable[[Case], None]] = {
    "define": _check_define,
    "ready": _check_ready,
    "agent": _check_agent,
    "sees": _check_sees,
    "contents": _check_contents,
    "tools": _check_tools,
}


def check_run(case: Case, case_runtime: CaseRuntime) -> None:
    """The flow is run by a Runtime that has its agents; the replies are taken in order, so one agent works at a time."""
    given = checked_keys(case.given, *_DEFINED, "tree", "own", "script", "leftover", "strategy", "expect", of=case.id)
    flow = _flow(given, given["agents"], turn_strategy=given.get("strategy", "round_robin"), max_parallel=1)
    turn = case_runtime.runtime.run_flow(flow, user_id=case.id, session_id=SESSION_ID, tasks=given.get("goal"))
    tasks = turn.result().tasks
    asked = list(case_runtime.model.requests[case_runtime.first :])
    if given.get("leftover") is None:
        assert len(asked) == case_runtime.replies, f"{case_runtime.replies - len(asked)} replies are left over"
    expect = checked_keys(given["expect"], "speakers", "status", "results", of=case.id)
    if "speakers" in expect:
        assert [request.agent for request in asked] == expect["speakers"]
    if "status" in expect:
        # Tasks outside of the goal stay as they were, and are not always reported.
        untouched = {name: "pending" for name in tasks if name not in expect["status"]}
        assert {name: task.status for name, task in tasks.items()} == {**untouched, **expect["status"]}
    if "results" in expect:
        assert {name: tasks[name].result for name in expect["results"]} == expect["results"]

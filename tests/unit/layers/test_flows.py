"""Rules of flows: states of tasks, whose turn it is, what agents see of each other, conditions on which flows stop."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import (
    AllComplete,
    AnyComplete,
    AnyFailed,
    Content,
    Event,
    Flow,
    FunctionCall,
    FunctionResponse,
    LlmAgent,
    MaxAgentTurns,
    MaxLLMCalls,
    Part,
    Task,
)
from actors.errors import DefinitionError
from actors.layers.flows.rules.board import COMPLETE, Board, cycle
from actors.layers.flows.rules.prompt import TaskHistory
from actors.layers.flows.rules.turn_order import Assignment, Strategy, TurnRules, TurnScheduler, candidates, peers
from actors.layers.flows.rules.until import Condition, Facts
from actors.messages.event import USER
from actors.messages.flow import FlowMark, TaskChange, TaskNode, TaskStatus
from actors.testing import ScriptedModel

AGENTS = ("a", "b", "c")


def mark(**said: Any) -> FlowMark:
    return FlowMark(run="r", **said)


def changed(task: str, status: Any, **more: Any) -> dict[str, TaskChange]:
    return {task: TaskChange(status=status, **more)}


def board_of(*nodes: TaskNode, goal: Sequence[str] = ()) -> Board:
    board = Board()
    board.add("flow", mark(created=nodes, goal=tuple(goal) or tuple(node.name for node in nodes)))
    return board


def task(name: str, *needs: str, agents: Sequence[str] = AGENTS, **more: Any) -> TaskNode:
    return TaskNode(name=name, agents=tuple(agents), depends_on=needs, **more)


# -------------------------------------------------------------------------------------------------------------- states
def test_only_the_goal_and_what_is_upstream_of_it_is_worked_on() -> None:
    board = board_of(task("t1"), task("t2", "t1"), task("beside"), goal=["t2"])
    assert board.ready() == ["t1"]
    board.add("a", mark(tasks=("t1",), changes=changed("t1", "successful", result=1)))
    assert board.ready() == ["t2"]
    assert board.status["beside"] == "pending"


def test_a_subtask_is_a_dependency_of_its_parent() -> None:
    board = board_of(task("whole"), task("part", parent="whole"))
    assert board.ready() == ["part"]
    assert board.upstream(["whole"]) == {"whole", "part"}


def test_failure_spreads_to_everything_that_needs_it_but_not_to_tasks_that_do_not_mind() -> None:
    minds_not = task("t3", "t2", on_failed_dependency="run")
    board = board_of(task("t1"), task("t2", "t1"), minds_not, task("t4", "t2"))
    board.add("a", mark(tasks=("t1",), changes=changed("t1", "failed", reason="no")))
    skipped = board.skipped_by_failures()
    assert {name: change.reason for name, change in skipped.items()} == {
        "t2": "it needs 't1', which was failed",
        "t4": "it needs 't2', which was skipped",
    }
    board.add("flow", mark(changes=skipped))
    assert board.ready() == ["t3"]
    assert board.skipped_by_failures() == {}


def test_a_task_that_is_complete_never_changes_again() -> None:
    board = board_of(task("t1"))
    board.add("a", mark(tasks=("t1",), changes=changed("t1", "successful", result=1)))
    board.add("a", mark(tasks=("t1",), changes=changed("t1", "failed", reason="late")))
    assert (board.status, board.results, board.reasons) == ({"t1": "successful"}, {"t1": 1}, {})


def test_a_task_fails_when_its_model_calls_are_used_up() -> None:
    board = board_of(task("t1", max_llm_calls=2), task("t2"))
    for number in (1, 2):
        assert board.out_of_calls() == {}
        board.add("a", mark(tasks=("t1", "t2"), round=number, llm_calls=1))
    assert list(board.out_of_calls()) == ["t1"]
    assert "2 model calls" in board.out_of_calls()["t1"].reason


def test_calls_before_another_task_was_finished_do_not_count() -> None:
    board = board_of(task("t1", max_llm_calls=2), task("t2"), task("t3"))
    every = ("t1", "t2", "t3")
    for number, finished in enumerate(({}, changed("t2", "successful"), {}, changed("t3", "failed"), {}), 1):
        board.add("a", mark(tasks=every, round=number, llm_calls=1))
        # As in the log: the response with the calls comes first, what they decided stands on the next event.
        board.add("a", mark(tasks=every, round=number, changes=finished))
        assert board.out_of_calls() == {}
    board.add("a", mark(tasks=every, round=6, llm_calls=1))
    assert list(board.out_of_calls()) == ["t1"]


def test_a_cycle_is_named() -> None:
    assert cycle({"a": ["b"], "b": ["c"], "c": ["a"]}) == ["a", "b", "c", "a"]
    assert cycle({"a": ["a"]}) == ["a", "a"]
    assert cycle({"a": ["b", "c"], "b": ["c"], "c": []}) == []


@given(st.integers(2, 400))
def test_a_long_chain_is_no_cycle(length: int) -> None:
    assert cycle({str(n): [str(n + 1)] for n in range(length)}) == []
    assert cycle({str(n): [str((n + 1) % length)] for n in range(length)}) != []


# --------------------------------------------------------------------------------------------------------------- turns
def rules(strategy: Strategy = "round_robin", **more: Any) -> TurnRules:
    return TurnRules(**{"agents": AGENTS, "strategy": strategy, "max_parallel": 1, **more})


def after(board: Board, agent: str, *, named: str | None = None) -> Board:
    """The agent has had a turn on all it may work on, and has ended it."""
    board.add("flow", mark(turns={agent: candidates(board, board.ready()).get(agent, ())}))
    board.add(agent, mark(ends_turn=True, next_agent=named))
    return board


def begin_rounds(how: TurnRules, board: Board, *, at_work: Sequence[Assignment] = ()) -> list[Assignment]:
    return TurnScheduler(how, board, lambda seed, names: random.Random(seed).choice(names), at_work).assign()


def chosen(board: Board, how: TurnRules) -> str:
    return begin_rounds(how, board)[0].agent


@pytest.mark.parametrize(
    ("strategy", "last", "expected"),
    [
        ("round_robin", "", "a"),
        ("round_robin", "a", "b"),
        ("round_robin", "c", "a"),
        ("single", "b", "b"),
        ("popcorn", "b", "b"),
        ("moderated", "b", "c"),
        ("most_busy", "a", "b"),
    ],
)
def test_strategies_choose_after_a_turn_that_names_nobody(strategy: Strategy, last: str, expected: str) -> None:
    board = board_of(task("t1"), task("t2", agents=["b"]))
    if last:
        after(board, last)
    assert chosen(board, rules(strategy, moderator="c")) == expected


def test_round_robin_goes_on_behind_an_agent_that_is_no_candidate_any_more() -> None:
    board = board_of(task("t1", agents=["b"]), task("t2", "t1", agents=["a", "c"]))
    board.add("b", mark(tasks=("t1",), changes=changed("t1", "successful")))
    assert chosen(board, rules()) == "c"


def test_chance_is_the_same_for_the_same_run() -> None:
    board = board_of(task("t1"))
    picks = {seed: chosen(board, rules("random", seed=seed)) for seed in map(str, range(20))}
    assert picks == {seed: chosen(board, rules("random", seed=seed)) for seed in picks}
    assert set(picks.values()) == set(AGENTS)


def test_a_seed_draws_for_ever_what_it_drew_at_first() -> None:
    board = board_of(task("t1"))
    picks = "".join(chosen(board, rules("random", seed=str(seed))) for seed in range(20))
    assert picks == "caabbbaabbbbacacabcb"


def test_an_agent_keeps_its_turn_until_it_finishes_a_task() -> None:
    board = board_of(task("t1", agents=["a", "b"]), task("t2", agents=["a", "b"]))
    board.add("a", mark(tasks=("t1", "t2"), round=1))
    assert [(each.agent, each.tasks, each.begins) for each in begin_rounds(rules(), board)] == [("a", ("t1", "t2"), False)]
    board.add("a", mark(tasks=("t1", "t2"), round=2, changes=changed("t1", "successful")))
    assert [(each.agent, each.tasks, each.begins) for each in begin_rounds(rules(), board)] == [("b", ("t2",), True)]


def test_tasks_that_are_handed_over_wait_for_whom_they_were_handed_to() -> None:
    board = board_of(task("t1", agents=["a", "b", "c"]), task("t2", agents=["b"]))
    board.add("flow", mark(turns={"a": ("t1",), "b": ("t2",)}))
    board.add("a", mark(tasks=("t1",), round=1, ends_turn=True, next_agent="b"))
    how = rules(max_parallel=None)
    assert begin_rounds(how, board, at_work=[Assignment("b", ("t2",), begins=True)]) == []
    board.add("b", mark(tasks=("t2",), round=2))
    assert [(each.agent, each.tasks) for each in begin_rounds(how, board)] == [("b", ("t1", "t2"))]


def test_nobody_gets_the_tasks_of_a_round_under_way_even_when_its_turn_is_over() -> None:
    board = board_of(task("whole", agents=["a"]), task("t2", agents=["a", "b"]), task("part", agents=["b"], parent="whole"))
    board.add("flow", mark(turns={"a": ("whole", "t2"), "b": ("part",)}))
    board.add("b", mark(tasks=("part",), changes=changed("part", "failed")))
    board.add("flow", mark(changes=board.skipped_by_failures()))
    assert "a" not in board.turns
    under_way = Assignment("a", ("whole", "t2"), begins=True)
    assert begin_rounds(rules(max_parallel=None), board, at_work=[under_way]) == []
    assert [each.agent for each in begin_rounds(rules(max_parallel=None), board)] == ["a"]


def test_agents_whose_tasks_are_ready_work_side_by_side() -> None:
    board = board_of(task("t1", agents=["a"]), task("t2", agents=["a", "b"]), task("t3", agents=["c"]), task("t4", agents=["b"]))
    dealt = begin_rounds(rules(max_parallel=None), board)
    assert [(each.agent, each.tasks) for each in dealt] == [("a", ("t1", "t2")), ("b", ("t4",)), ("c", ("t3",))]
    assert len(begin_rounds(rules(max_parallel=2), board)) == 2
    assert peers(board, "a", ["t1", "t2"]) == ("b",)


# ---------------------------------------------------------------------------------------------------- any flow at all
@st.composite
def graphs(draw: st.DrawFn) -> tuple[TaskNode, ...]:
    """Tasks in which each needs only earlier ones, and is a part only of later ones."""
    count = draw(st.integers(1, 8))
    nodes = []
    for index in range(count):
        needs = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        parent = draw(st.none() | st.integers(index + 1, count - 1)) if index < count - 1 else None
        nodes.append(
            TaskNode(
                name=f"t{index}",
                agents=tuple(draw(st.lists(st.sampled_from(AGENTS), min_size=1, unique=True))),
                depends_on=tuple(f"t{needed}" for needed in sorted(needs)),
                parent=None if parent is None else f"t{parent}",
                on_failed_dependency=draw(st.sampled_from(["skip", "run"])),
                max_llm_calls=draw(st.none() | st.integers(1, 3)),
            )
        )
    return tuple(nodes)


STRATEGIES: Sequence[Strategy] = ("round_robin", "single", "popcorn", "moderated", "random", "most_busy")


@given(graphs(), st.sampled_from(STRATEGIES), st.none() | st.integers(1, 3), st.data())
def test_every_flow_gets_on_or_is_done_whatever_agents_do(
    nodes: tuple[TaskNode, ...], strategy: Strategy, parallel: int | None, data: st.DataObject
) -> None:
    board, how = board_of(*nodes), rules(strategy, max_parallel=parallel)
    finished: list[str] = []
    rounds = 0
    while board.incomplete():
        while settled := {**board.out_of_calls(), **board.skipped_by_failures()}:
            board.add("flow", mark(changes=settled))
        dealt = begin_rounds(how, board)
        assert dealt or not board.incomplete(), "tasks are left to do and nobody works"
        assert len({name for each in dealt for name in each.tasks}) == sum(len(each.tasks) for each in dealt)
        for each in dealt:
            rounds += 1
            assert all(each.agent in board.nodes[name].agents for name in each.tasks)
            assert all(board.is_complete(needed) for name in each.tasks for needed in board.needs(name))
            # Sooner or later every agent finishes something: a third of the rounds, at the latest.
            does = data.draw(st.sampled_from(["finish", "fail", "talk", "end"])) if rounds % 3 else "finish"
            name = data.draw(st.sampled_from(each.tasks))
            other = data.draw(st.sampled_from((None, *peers(board, each.agent, each.tasks))))
            changes = {"finish": changed(name, "successful"), "fail": changed(name, "failed")}.get(does, {})
            finished += [*changes]
            ends = does == "end"
            board.add(
                each.agent,
                mark(
                    tasks=each.tasks,
                    round=rounds,
                    llm_calls=1,
                    changes=changes,
                    ends_turn=ends,
                    next_agent=other if ends else None,
                ),
            )
        assert rounds < 200, "it goes round in circles"
    assert len(finished) == len(set(finished))
    assert set(board.status.values()) <= COMPLETE


@given(graphs(), st.integers(0, 7))
def test_the_graph_is_walked_completely(nodes: tuple[TaskNode, ...], index: int) -> None:
    board = board_of(*nodes)
    name = nodes[index % len(nodes)].name
    upstream = board.upstream([name])
    assert name in upstream
    assert all(needed in upstream for each in upstream for needed in board.needs(each))
    # Nothing is in it without a reason.
    assert all(each == name or any(each in board.needs(other) for other in upstream) for each in upstream)


RUN = "r"


def made_by(author: str, text: str, *tasks: str, run: str = RUN) -> Event:
    role = USER if author == USER else "model"
    return Event(author=author, content=Content.of_text(text, role=role), flow=FlowMark(run=run, tasks=tasks) if tasks else None)


def call(author: str, name: str, call_id: str, *tasks: str) -> Event:
    content = Content(role="model", parts=[Part(function_call=FunctionCall(id=call_id, name=name, args={"x": 1}))])
    return Event(author=author, content=content, flow=FlowMark(run=RUN, tasks=tasks))


def answer(author: str, name: str, call_id: str, *tasks: str, **result: Any) -> Event:
    content = Content(role=USER, parts=[Part(function_response=FunctionResponse(id=call_id, name=name, response=result))])
    return Event(author=author, content=content, flow=FlowMark(run=RUN, tasks=tasks) if tasks else None)


def view(agent: str, nodes: tuple[TaskNode, ...], *events: Event) -> TaskHistory:
    made = TaskHistory(agent)
    made.add(Event(author="flow", flow=FlowMark(run=RUN, created=nodes)))
    for event in events:
        made.add(event)
    return made


def seen(made: TaskHistory, *tasks: str) -> str:
    return "\n".join(
        part.text or str(part.function_call or part.function_response)
        for content in made.contents_for(RUN, tasks)
        for part in content.parts
    )


@given(graphs(), st.data())
def test_others_are_seen_exactly_when_they_worked_upstream(nodes: tuple[TaskNode, ...], data: st.DataObject) -> None:
    names = [node.name for node in nodes]
    log = data.draw(st.lists(st.tuples(st.sampled_from(AGENTS), st.sets(st.sampled_from(names), min_size=1)), max_size=12))
    events = [made_by(author, f"<{place}>", *sorted(tasks)) for place, (author, tasks) in enumerate(log)]
    reader = data.draw(st.sampled_from(AGENTS))
    mine = data.draw(st.sets(st.sampled_from(names), min_size=1))
    made = view(reader, nodes, *events)
    upstream = made.board(RUN).upstream(mine)
    text = seen(made, *mine)
    for place, (author, tasks) in enumerate(log):
        assert (f"<{place}>" in text) == (author == reader or not tasks.isdisjoint(upstream))


def test_of_others_tools_only_results_are_seen_and_nothing_of_the_controllers() -> None:
    nodes = (task("t1"), task("t2", "t1"))
    made = view(
        "b",
        nodes,
        call("a", "lookup", "c1", "t1"),
        answer("a", "lookup", "c1", "t1", found="gold"),
        call("a", "succeed_t1", "c2", "t1"),
        answer("a", "succeed_t1", "c2", "t1", status="successful"),
    )
    assert seen(made, "t2") == 'For context:\n[a] `lookup` tool returned result: {"found":"gold"}'


def test_own_calls_and_results_stay_as_they_are_in_the_models_role() -> None:
    made = view("a", (task("t1"),), call("a", "lookup", "c1", "t1"), answer("a", "lookup", "c1", "t1", found="gold"))
    contents = made.contents_for(RUN, ["t1"])
    assert [content.role for content in contents] == ["model", "user"]
    assert next(contents[0].function_calls()).name == "lookup"
    assert next(contents[1].function_responses()).response == {"found": "gold"}


def test_what_the_user_answers_for_a_task_is_seen_where_the_task_is() -> None:
    nodes = (task("t1"), task("t2"), task("t3", "t1"))
    both = Event(
        author=USER,
        content=Content(
            role=USER,
            parts=[Part(text="be quick"), Part(function_response=FunctionResponse(id="c1", name="ask", response={"told": "no"}))],
        ),
    )
    log = (call("a", "ask", "c1", "t1"), both)
    assert seen(view("b", nodes, *log), "t2") == "be quick"
    assert seen(view("b", nodes, *log), "t3") == 'be quick\n[user] `ask` tool returned result: {"told":"no"}'


def test_another_run_of_the_same_flow_is_another_world() -> None:
    made = view("b", (task("t1"),), made_by("a", "then", "t1", run="earlier"), made_by("a", "now", "t1"))
    assert seen(made, "t1") == "For context:\n[a] said: now"


def test_the_response_to_a_call_that_was_cancelled_is_seen_where_its_task_is() -> None:
    nodes = (task("t1"), task("t2"), task("t3", "t1"))
    log = (call("a", "lookup", "c1", "t1"), answer("a", "lookup", "c1", error="cancelled"))
    assert seen(view("b", nodes, *log), "t2") == ""
    assert seen(view("b", nodes, *log), "t3") == 'For context:\n[a] `lookup` tool returned result: {"error":"cancelled"}'


def test_calls_are_open_until_the_agent_itself_has_answered_them() -> None:
    made = view("a", (task("t1"),), call("a", "ask", "c1", "t1"), call("b", "ask", "c2", "t1"))
    assert [(open_call.call.id, open_call.answer) for open_call in made.open_calls(RUN)] == [("c1", None)]
    made.add(answer(USER, "ask", "c1", told="yes"))
    (open_call,) = made.open_calls(RUN)
    assert open_call.answer is not None
    assert open_call.answer.response == {"told": "yes"}
    made.add(answer("a", "ask", "c1", "t1", done=True))
    assert made.open_calls(RUN) == []
    assert made.open_calls("earlier") == []


NAMES = ("a", "b", "c")
ORDER: tuple[TaskStatus, ...] = ("pending", "running", "successful", "failed", "skipped")

facts = st.builds(
    Facts,
    status=st.fixed_dictionaries({name: st.sampled_from(ORDER) for name in NAMES}),
    required=st.just(NAMES),
    llm_calls=st.integers(0, 4),
    agent_turns=st.integers(0, 4),
)
plain_conditions = st.one_of(
    st.builds(AnyComplete, n=st.integers(1, 3)),
    st.builds(AnyComplete, tasks=st.lists(st.sampled_from(NAMES), min_size=1, unique=True)),
    st.builds(AllComplete, st.lists(st.sampled_from(NAMES), min_size=1, unique=True)),
    st.builds(AnyFailed, st.integers(1, 3)),
    st.builds(MaxLLMCalls, st.integers(1, 4)),
    st.builds(MaxAgentTurns, st.integers(1, 4)),
)


def known(**status: TaskStatus) -> Facts:
    return Facts(status={"a": "pending", "b": "pending", "c": "pending", **status}, required=NAMES)


@pytest.mark.parametrize(
    ("condition", "holds", "holds_not"),
    [
        (AnyComplete(), known(a="skipped"), known(a="running")),
        (AnyComplete(2), known(a="successful", c="failed"), known(a="successful")),
        (AnyComplete(tasks=["b", "c"]), known(b="successful"), known(a="successful")),
        (AnyComplete(2, tasks=["b", "c"]), known(b="successful", c="failed"), known(a="successful", b="successful")),
        (AllComplete(["a", "b"]), known(a="successful", b="failed"), known(a="successful", c="successful")),
        (AnyFailed(), known(b="failed"), known(a="skipped", b="successful")),
        (AnyFailed(2), known(b="failed", c="failed"), known(b="failed")),
        (MaxLLMCalls(3), Facts(status={}, required=(), llm_calls=3), Facts(status={}, required=(), llm_calls=2)),
        (MaxAgentTurns(3), Facts(status={}, required=(), agent_turns=3), Facts(status={}, required=(), agent_turns=2)),
    ],
    ids=str,
)
def test_a_condition_holds_from_a_certain_number_on(condition: Condition, holds: Facts, holds_not: Facts) -> None:
    assert condition.holds(holds)
    assert not condition.holds(holds_not)


@given(plain_conditions, plain_conditions, facts)
def test_conditions_are_combined_by_or_and_and(one: Condition, other: Condition, now: Facts) -> None:
    assert (one | other).holds(now) == (one.holds(now) or other.holds(now))
    assert (one & other).holds(now) == (one.holds(now) and other.holds(now))
    assert (one & (one | other)).holds(now) == one.holds(now)


@given(plain_conditions, plain_conditions, facts, facts)
def test_what_holds_once_holds_for_good(one: Condition, other: Condition, before: Facts, more: Facts) -> None:
    complete = {task: status for task, status in before.status.items() if status in ("successful", "failed", "skipped")}
    after = Facts(
        status={**more.status, **complete},
        required=NAMES,
        llm_calls=before.llm_calls + more.llm_calls,
        agent_turns=before.agent_turns + more.agent_turns,
    )
    for condition in (one | other, one & other):
        assert condition.holds(after) or not condition.holds(before)


@given(plain_conditions, plain_conditions, facts)
def test_conditions_are_plain_data(one: Condition, other: Condition, now: Facts) -> None:
    condition = (one | other) & one
    copy = pickle.loads(pickle.dumps(condition))
    assert copy == condition
    assert copy.holds(now) == condition.holds(now)
    assert msgspec.json.encode(condition)


def test_conditions_show_how_they_are_written() -> None:
    condition = (AnyComplete(2) | MaxLLMCalls(15)) & AllComplete(["a"])
    assert str(condition) == "(AnyComplete(n=2) | MaxLLMCalls(n=15)) & AllComplete(tasks=('a',))"


def test_a_flow_names_the_tasks_of_its_condition() -> None:
    agent = LlmAgent(name="agent", model=ScriptedModel([]))
    first, second = Task("1"), Task("2", name="second")
    flow = Flow([first, second], agents=[agent], until=AllComplete([first, "second"]) | AnyComplete(tasks=[second]) & AnyFailed())
    assert str(flow.plan.until) == "AllComplete(tasks=('task_1', 'second')) | AnyComplete(tasks=('second',)) & AnyFailed()"
    assert pickle.loads(pickle.dumps(flow.plan)).until == flow.plan.until


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda: AnyComplete(0), "AnyComplete needs n, a whole number of at least 1, not 0"),
        (lambda: AnyFailed(True), "AnyFailed needs n, a whole number of at least 1, not True"),
        (lambda: MaxLLMCalls("2"), "MaxLLMCalls needs n"),  # type: ignore[arg-type]
        (lambda: MaxAgentTurns(1.5), "MaxAgentTurns needs n"),  # type: ignore[arg-type]
        (lambda: AnyComplete(3, tasks=["a", "b"]), "AnyComplete waits for 3 of 2 tasks"),
        (lambda: AllComplete([]), "AllComplete has an empty list of tasks"),
        (lambda: AllComplete("ab"), "AllComplete needs tasks, a list of tasks or of their names, not str"),
        (lambda: AnyComplete(tasks=[3]), "AnyComplete needs tasks, or their names, not int"),  # type: ignore[list-item]
    ],
)
def test_a_wrong_condition_is_refused(define: Callable[[], object], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        define()


def test_a_condition_is_combined_with_conditions_only() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        AnyComplete() | True  # type: ignore[operator]

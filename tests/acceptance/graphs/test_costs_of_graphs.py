"""What a turn of a graph costs: messages and commits, which no machine makes slower."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors import (
    START,
    BaseAgent,
    Content,
    Event,
    FunctionResponse,
    Graph,
    JoinNode,
    LlmAgent,
    NodeContext,
    ParallelAgent,
    Part,
    RequestInput,
    ToolContext,
)
from actors.rules.prompt.history import History
from actors.testing import PatternModel
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support import inside
from tests.support.fixtures.lossy_engine import lossy_runtime
from tests.support.graphs import texts
from tests.support.runtimes import Deploy, run_turn

MANY = 5


def agents() -> Sequence[LlmAgent]:
    return [LlmAgent(name=f"m{number}", model=PatternModel([("", "ok")])) for number in range(MANY)]


def messages_and_commits(root: BaseAgent, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Of a turn of a new session, in a deployment that has run one before."""
    commits = 0
    commit = SqlSessionStore.commit

    def counted(store: SqlSessionStore, *given: object) -> object:
        nonlocal commits
        commits += 1
        return commit(store, *given)  # type: ignore[arg-type]

    folder.mkdir()
    rt, engine = lossy_runtime(root, folder)
    with rt, monkeypatch.context() as patch:
        run_turn(rt, "go", session_id="warm")
        patch.setattr(SqlSessionStore, "commit", counted)
        before = engine.messages
        run_turn(rt, "go")
        return engine.messages - before, commits


def test_agents_side_by_side_cost_less_than_those_of_a_parallel_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parallel = ParallelAgent(name="root", sub_agents=list(agents()))
    beside, commits = messages_and_commits(parallel, tmp_path / "a", monkeypatch)
    fan = Graph(name="root", edges=[(START, tuple(agents()))])
    assert messages_and_commits(fan, tmp_path / "b", monkeypatch) == (beside - MANY, commits)
    joined = Graph(name="root", edges=[(START, tuple(agents()), JoinNode("all"))])
    assert messages_and_commits(joined, tmp_path / "c", monkeypatch) == (beside - MANY, commits)


def test_of_an_agent_that_answers_at_once_only_its_input_is_compiled(local: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[str] = []
    add = History.add

    def counted(history: History, event: Event) -> None:
        added.append(event.author)
        add(history, event)

    with local(Graph(name="root", edges=[(START, tuple(agents()))])) as rt, monkeypatch.context() as patch:
        patch.setattr(History, "add", counted)
        run_turn(rt, "go")
    assert added == ["user"] * MANY


def test_agents_begin_with_the_state_as_it_is_then(deploy: Deploy) -> None:
    """Also with what functions have written, and agents before them."""

    def write(key: str, tool_context: ToolContext) -> str:
        """Write."""
        tool_context.state[key] = "known"
        return "ok"

    def look(tool_context: ToolContext) -> str:
        """Look."""
        return " ".join(sorted(tool_context.state))

    def begin(ctx: NodeContext) -> None:
        ctx.state["x"] = "known"

    writes = PatternModel([("tool:", "written"), ("", {"call": "write", "args": {"key": "y"}})])
    writer = LlmAgent(name="writer", model=writes, tools=[write])
    first, last = (LlmAgent(name=name, model=PatternModel([("", {"call": "look"})]), tools=[look]) for name in ("first", "last"))
    with deploy(Graph(name="wf", edges=[(START, begin, first, writer, last)])) as rt:
        events = run_turn(rt, "go")
        assert [event.text for event in events if event.text] == ['{"result":"x"}', "written", '{"result":"x y"}']


def events_read(earlier: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """By actors, of the log of a session with so many turns, for an answer behind which a node is given nothing."""

    def question() -> RequestInput:
        return RequestInput(interrupt_id="q")

    def give_nothing() -> None:
        """Give nothing to the next node."""

    read = 0

    async def counted(reading: Callable[..., Any], *args: Any) -> Any:
        nonlocal read
        found = await reading(*args)
        read += len(found.events)
        return found

    folder.mkdir()
    echo = LlmAgent(name="echo", model=PatternModel([("write", "I write"), ("", "of what?")]))
    graph = Graph(name="wf", edges=[(START, question, give_nothing, echo)])
    inside.around(monkeypatch, "read a log for an agent", counted)
    inside.around(monkeypatch, "read a part of a log", counted)
    with Deploy("local", folder)(graph) as rt:
        for _ in range(earlier):
            run_turn(rt, "an older one")
        run_turn(rt, "write it")
        read = 0
        response = FunctionResponse(id="q", name="adk_request_input", response={"result": "yes"})
        assert texts(run_turn(rt, Content(role="user", parts=[Part(function_response=response)]))) == ["I write"]
        return read


def test_the_words_of_a_turn_are_read_behind_an_answer_without_what_was_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        alone = events_read(0, tmp_path / "a", patch)
    with monkeypatch.context() as patch:
        assert events_read(20, tmp_path / "b", patch) == alone

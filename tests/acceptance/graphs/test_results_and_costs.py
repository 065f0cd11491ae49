"""The results of graphs, and what their turns cost in messages and commits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

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
    SequentialAgent,
    ToolContext,
)
from actors.errors import OutputSchemaError
from actors.rules.prompt.history import History
from actors.testing import PatternModel
from runtime.frontends.console import cli
from runtime.stores.sql.sessions import SqlSessionStore
from runtime.web import app_for
from tests.support import inside
from tests.support.app_folders import fresh_imports, write
from tests.support.fixtures.lossy_engine import lossy_runtime
from tests.support.graphs import texts
from tests.support.runtimes import Deploy, run_turn
from tests.support.servers.web_server import TIMEOUT_S, serving


class Count(BaseModel):
    n: int
    unit: str = "orders"


def count(node_input: str) -> dict[str, int]:
    return {"n": 7}


def publish(node_input: Any) -> str:
    return "published"


def silent(node_input: str) -> None:
    return None


async def says_and_gives(node_input: str) -> AsyncIterator[Any]:
    yield Content(role="model", parts=[Part(text="Your order is on its way.")])
    yield {"order": 42}


def say(name: str, text: str) -> LlmAgent:
    return LlmAgent(name=name, model=PatternModel([], default=text))


def joined(node_input: dict[str, str]) -> str:
    return " / ".join(node_input.values())


def graph(*chain: Any, **options: Any) -> Graph:
    return Graph(name="wf", edges=[(START, *chain)], **options)


def weather() -> Graph:
    return graph((say("oslo", "Oslo is cold."), say("rome", "Rome is warm.")), JoinNode("both"), joined)


CASES: dict[str, tuple[Graph, Any, str]] = {
    "data": (graph(count), {"n": 7}, '{"n":7}'),
    "text": (graph(publish), "published", "published"),
    "nothing": (graph(silent), None, ""),
    "agents that were joined": (weather(), "Oslo is cold. / Rome is warm.", "Oslo is cold. / Rome is warm."),
    "an agent": (graph(say("oslo", "Oslo is cold.")), "Oslo is cold.", "Oslo is cold."),
    "a graph in it": (graph(Graph(name="inner", edges=[(START, count)])), {"n": 7}, '{"n":7}'),
    "what the node has said": (graph(says_and_gives), {"order": 42}, "Your order is on its way."),
    "a schema": (graph(count, output_schema=Count), {"n": 7, "unit": "orders"}, '{"n":7,"unit":"orders"}'),
}


@pytest.mark.parametrize("case", CASES)
def test_the_result_of_a_turn_has_the_output_of_its_graph(deploy: Deploy, case: str) -> None:
    root, output, text = CASES[case]
    with deploy(root) as rt:
        result = rt.run(user_id="ada", session_id="s1", message="hi").result()
        [mapped] = rt.map(["hi"], progress=False)
        asked = rt.ask("hi", session_id="s2")
        # A turn that is read from the log says the same.
        joined = rt.attach(user_id="ada", session_id="s1", invocation_id=result.invocation_id).result()
    assert (result.output, result.text) == (output, text)
    assert (joined.output, joined.text) == (output, text)
    assert (mapped.text, mapped.error) == (text, None)
    expected = Count(n=7) if case == "a schema" else text if output is None else output
    assert (asked, mapped.output) == (expected, expected)


def test_an_agent_that_speaks_after_a_graph_has_the_last_word(local: Deploy) -> None:
    for children, text in ((["graph", "agent"], "Goodbye."), (["agent", "graph"], "published")):
        made = {"graph": graph(publish), "agent": say("last", "Goodbye.")}
        with local(SequentialAgent(name="root", sub_agents=[made[each] for each in children]), app_name=children[0]) as rt:
            assert rt.ask("hi") == text


def test_the_output_becomes_an_object_of_the_type_that_is_asked_for(local: Deploy) -> None:
    with local(graph(count)) as rt:
        assert rt.ask("hi", result_type=Count) == Count(n=7)
        assert rt.ask("hi", result_type=dict[str, int]) == {"n": 7}
        assert rt.ask("hi", result_type=str) == '{"n":7}'
        assert [result.output for result in rt.map(["hi"], result_type=Count, progress=False)] == [Count(n=7)]
        with pytest.raises(OutputSchemaError, match=r"of agent 'wf'.*It answered '\{\"n\":7\}'; asked for is list\[int\]"):
            rt.ask("hi", result_type=list[int])
    with local(graph(publish), app_name="label") as rt:
        assert rt.ask("hi", result_type=Literal["draft", "published"]) == "published"
    with local(graph(say("clerk", '{"n": 3}')), app_name="json") as rt:
        assert rt.ask("hi", result_type=Count) == Count(n=3)


APP = """
    from actors import START, Graph

    def count(node_input: str) -> dict:
        return {"n": 7}

    root_agent = Graph(name="wf", edges=[(START, count)])
"""


def test_the_command_prints_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "counting", {"agent.py": APP})
    with fresh_imports():
        ran = CliRunner().invoke(cli.app, ["run", "counting", "hi"])
        chatted = CliRunner().invoke(cli.app, ["chat", "counting"], input="hi\n")
    assert (ran.stdout, ran.exit_code) == ('{"n":7}\n', 0)
    assert '{"n":7}' in chatted.stdout


async def test_a_service_answers_with_it(tmp_path: Path) -> None:
    with Deploy("local", tmp_path)(graph(count), app_name="wf") as rt, serving(app_for(rt)) as url:
        async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            done = (await client.post("/v1/apps/wf/sessions/s1/turns?user=ada", json={"message": "hi"})).json()
    assert (done["text"], done["output"]) == ('{"n":7}', {"n": 7})


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

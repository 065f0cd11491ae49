"""Code that never returns, and code that takes its process along: who goes on beside it, and who alone."""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors import (
    START,
    AgentTool,
    BaseAgent,
    Blob,
    Content,
    CustomAgent,
    Event,
    FunctionTool,
    Graph,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Model,
    ModelLimits,
    Part,
    RunConfig,
)
from actors.errors import ArtifactError
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from runtime.stores.artifacts import FsspecArtifactStore
from tests.support.agents.conversation_tools import Gate
from tests.support.agents.workflow_agents import par, seq
from tests.support.fixtures.lossy_engine import Process, lossy_runtime
from tests.support.runtimes import Deploy, run_turn

THREADS = 2
"""Sync tools of an agent's process that may run at the same time."""

ENTERED = "in"
"""What a call writes into a pipe."""

PATIENCE_S = 30
"""How long something may take on a busy machine that takes no time."""


class WaitingTools:
    """Two equal sync tools, `stay` and `hold`, that say through a pipe that they were called, and return at an open door."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._entered = folder / "entered"
        self.door = Gate(folder)
        os.mkfifo(self._entered)

    def stay(self) -> int:
        """Wait, and return the id of this process."""
        self._entered.write_text(ENTERED)
        self.door.wait()
        return os.getpid()

    hold = stay

    def wait_until_called(self) -> None:
        """Wait for one call. Raises TimeoutError when none comes."""
        end_s = time.monotonic() + PATIENCE_S
        pipe = os.open(self._entered, os.O_RDONLY | os.O_NONBLOCK)
        try:
            while select.select([pipe], [], [], max(0.0, end_s - time.monotonic()))[0]:
                if os.read(pipe, len(ENTERED)):
                    return
                # The call before has closed its end only now.
                time.sleep(0.001)
            raise TimeoutError("the tool was not called")
        finally:
            os.close(pipe)


def process_id() -> int:
    """Return the id of this process."""
    return os.getpid()


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[WaitingTools]:
    made = WaitingTools(tmp_path / "stuck")
    yield made
    made.door.release()


@pytest.fixture
def healthy(tmp_path: Path) -> WaitingTools:
    return WaitingTools(tmp_path / "healthy")


@pytest.fixture
def rt(deploy: Deploy, stuck: WaitingTools, healthy: WaitingTools) -> Iterator[Runtime]:
    calls = PatternModel([(name, {"call": name}) for name in ("stay", "hold", "process_id")], default="hello")
    tools = [FunctionTool(stuck.stay), FunctionTool(healthy.hold, name="hold"), FunctionTool(process_id)]
    with deploy(LlmAgent(name="root", model=calls, tools=tools), settings=Settings(tool_threads=THREADS)) as rt:
        yield rt


def leave_stuck(rt: Runtime, stuck: WaitingTools, times: int) -> None:
    """Cancel so many turns whose tool does not return."""
    for _ in range(times):
        turn = rt.run(user_id="bob", session_id="bobs", message="stay")
        stuck.wait_until_called()
        turn.cancel()


def where(rt: Runtime, session_id: str) -> int:
    """The id of the process in which a sync tool runs now."""
    config = RunConfig(timeout=PATIENCE_S)
    *_, result, _ = run_turn(rt, "process_id", session_id=session_id, run_config=config)
    return result_of(result)


def result_of(event: Event) -> int:
    (answer,) = event.function_responses()
    return int(answer.response["result"])


def test_sync_tools_that_never_return_leave_the_threads_to_other_users(rt: Runtime, stuck: WaitingTools) -> None:
    began = where(rt, "s0")
    leave_stuck(rt, stuck, THREADS)
    # Not replaced yet: they may only be slow.
    assert where(rt, "s1") == began
    counts = rt.statistics().agents["root"].counts
    assert counts["threads_left"] == THREADS
    leave_stuck(rt, stuck, 3 * THREADS)
    assert where(rt, "s2") > 0


def test_a_process_that_has_lost_its_threads_is_replaced_and_its_healthy_run_goes_on(
    rt: Runtime, engine: str, stuck: WaitingTools, healthy: WaitingTools
) -> None:
    began = where(rt, "s0")
    turn = rt.run(user_id="ada", session_id="s1", message="hold")
    healthy.wait_until_called()
    leave_stuck(rt, stuck, 2 * THREADS)
    moved = where(rt, "s2")
    # The process's request to be replaced may arrive after the turn.
    while engine == "ray" and moved == began:
        moved = where(rt, "s2")
    assert rt.statistics().runner.counts["replaced"] == (engine == "ray")
    healthy.door.open()
    *_, result, _ = turn.result().events
    assert result_of(result) == began
    assert where(rt, "s3") == moved


class DeafModel:
    """A model whose first call does not end before `let`, not even when it is cancelled; later ones answer at once."""

    name = "deaf"

    def __init__(self) -> None:
        self.called = threading.Event()
        self.let = threading.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        if not self.called.is_set():
            self.called.set()
            while not self.let.is_set():
                try:
                    await asyncio.to_thread(self.let.wait)
                except asyncio.CancelledError:
                    continue
        yield LlmResponse(content=Content.of_text("hello", role="model"))


def test_a_model_that_does_not_hear_of_the_end_of_its_run_gives_its_permit_to_others(local: Deploy) -> None:
    model = DeafModel()
    limits = Settings(model_limits={"deaf": ModelLimits(max_concurrency=1)})
    with local(LlmAgent(name="root", model=model), settings=limits) as rt:
        turn = rt.run(user_id="bob", session_id="s1", message="hi")
        assert model.called.wait(PATIENCE_S)
        turn.cancel()
        assert run_turn(rt, "hi", run_config=RunConfig(timeout=PATIENCE_S))[-1].text == "hello"
        model.let.set()


class StuckStore(FsspecArtifactStore):
    """An artifact store that does not come back from saving until `let`."""

    let = threading.Event()

    def save(self, key: SessionKey, filename: str, part: Part) -> int:
        """Wait, and save a part."""
        self.let.wait()
        return super().save(key, filename, part)


def test_an_artifact_store_that_does_not_answer_fails_its_turn_alone(local: Deploy, tmp_path: Path) -> None:
    settings = Settings(tool_threads=1, store_timeout_s=0.1)
    model = PatternModel([("process", {"call": "process_id"})], default="hello")
    root = LlmAgent(name="root", model=model, tools=[process_id])
    with local(root, settings=settings, artifact_store=StuckStore(f"file://{tmp_path}/stuck")) as rt:
        picture = Content(role="user", parts=[Part(inline_data=Blob(mime_type="image/png", data=b"png"))])
        config = RunConfig(save_input_blobs_as_artifacts=True)
        for _ in range(2):
            with pytest.raises(ArtifactError, match=r"has not answered within 0\.1 s"):
                run_turn(rt, picture, run_config=config)
        assert where(rt, "s2") == os.getpid()
        StuckStore.let.set()


Lose = Callable[[], Awaitable[None]]
"""Loses all agents the first time it is called."""


class Losing(Model):
    """A model whose client ends the process."""

    def __init__(self, lose: Lose) -> None:
        self._lose = lose

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await self._lose()
        yield LlmResponse(content=Content.of_text("done", role="model"))


def calls_tool(name: str, lose: Lose) -> LlmAgent:
    """An agent whose tool ends the process."""

    async def work() -> str:
        """Work."""
        await lose()
        return "worked"

    return LlmAgent(name=name, model=PatternModel([("tool:", "done")], default={"call": "work"}), tools=[work])


def calls_model(name: str, lose: Lose) -> LlmAgent:
    return LlmAgent(name=name, model=Losing(lose))


class Code(CustomAgent):
    """Ends the process itself, or else runs its child."""

    lose: Any = None

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        if self.lose is not None:
            await self.lose()
        else:
            await context.run_agent("a")
        yield Event(content=Content.of_text("done", role="model"))


def asks(agent: BaseAgent) -> LlmAgent:
    call = {"call": agent.name, "args": {"request": "go"}}
    return LlmAgent(name="root", model=PatternModel([("tool:", "done")], default=call), tools=[AgentTool(agent)])


def graph(node: Any) -> Graph:
    return Graph(name="root", edges=[(START, node)])


TREES: dict[str, tuple[Callable[[Lose], BaseAgent], Sequence[str]]] = {
    "tool": (lambda lose: calls_tool("root", lose), ["root"]),
    "client of a model": (lambda lose: calls_model("root", lose), []),
    "custom agent": (lambda lose: Code(name="root", lose=lose), ["root"]),
    "custom agent that waits for a tool": (lambda lose: Code(name="root", sub_agents=[calls_tool("a", lose)]), ["a"]),
    "custom agent that waits for a model": (lambda lose: Code(name="root", sub_agents=[calls_model("a", lose)]), []),
    "function of a graph": (lambda lose: graph(lose), ["root"]),
    "graph that waits for a tool": (lambda lose: graph(calls_tool("a", lose)), ["a"]),
    "graph that waits for a model": (lambda lose: graph(calls_model("a", lose)), []),
    "sequence": (lambda lose: seq("root", calls_tool("a", lose)), ["a"]),
    "parallel": (lambda lose: par("root", calls_model("a", lose), calls_tool("b", lose)), ["b"]),
    "agent that waits for a tool of another": (lambda lose: asks(calls_tool("a", lose)), ["a"]),
    "agent that waits for a model of another": (lambda lose: asks(calls_model("a", lose)), []),
}


@pytest.mark.parametrize("name", TREES)
def test_only_code_that_ran_when_the_process_ended_goes_on_alone(tmp_path: Path, name: str) -> None:
    tree, alone = TREES[name]
    has_lost = False
    begun: list[str] = []

    async def lose() -> None:
        nonlocal has_lost
        if not has_lost:
            has_lost = True
            await engine.lose("agents")

    async def see(sender: Process, message: p.Message, handled: bool) -> None:
        if handled and isinstance(message, p.BeginAlone):
            # Behind its branch, and before the path of its node.
            begun.append(message.run.partition(" ")[0].rpartition("/")[2])

    rt, engine = lossy_runtime(tree(lose), tmp_path)
    engine.meddler = see
    with rt:
        run_turn(rt, "go")
        assert {turn.state for turn in rt.turns.list()} == {"finished"}
    assert (has_lost, begun) == (True, alone)

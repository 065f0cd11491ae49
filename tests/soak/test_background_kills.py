"""Background runs, and messages between agents, while one process of the deployment after the other is killed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import (
    AgentTool,
    Background,
    Content,
    CustomAgent,
    Event,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    ParallelAgent,
    Part,
)
from actors.errors import AgentLostError
from actors.layers.stores.schedule import ScheduleRow
from actors.messages.content import FunctionCall
from runtime import Runtime
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.machine.killer import Killer
from tests.support.machine.terminal import Tell
from tests.support.polling import until
from tests.support.runtimes import Deploy, stored

RUNS, RUNS_OF_A_TURN = 1_000, 20

PEERS, TURNS, KILLS = 50, 20, 20

MESSAGES = 10
"""That each agent sends, and reads, in a turn: 5 to each of two others."""

PAUSE_S, PAUSE_OF_CODE_S = 1.2, 5.0
"""Between two kills. A run fails whose process is lost for the third time while it is alone there, and code that ran in a process
that was lost goes on alone. 4 runs begin to do so in 5 seconds, so turns of many custom agents have to be short."""


def waiting(folder: Path) -> list[ScheduleRow]:
    """All messages that wait in the store of a deployment that has ended."""
    store = SqlSessionStore(f"sqlite:///{folder}/sessions.db")
    store.open()
    try:
        return [row for row in store.schedules("test", None) if row.plan.message is not None]
    finally:
        store.close()


def killed(killer: Killer) -> str:
    """How many processes of each kind were killed."""
    cores = f"{killer.runners} Runners, {killer.sessions} Session actors"
    return f"{killer.kills} processes killed: {killer.agents} of agents, {cores}"


class Starter:
    """Has helpers begin and works on, where the user asks for it, and is content with what it hears of them."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        last = request.contents[-1]
        if last.text.startswith("begin"):
            calls = [FunctionCall(name="helper", args={"request": "help"}) for _ in range(RUNS_OF_A_TURN)]
        elif any(response.name == "helper" for response in last.function_responses()):
            calls = [FunctionCall(name="work", args={})]
        else:
            yield LlmResponse(content=Content.of_text("I see", role="model"))
            return
        yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call) for call in calls]))


class Helper:
    """Works a while, and is done."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await asyncio.sleep(0.5)
        yield LlmResponse(content=Content.of_text("done", role="model"))


async def work() -> str:
    """Take a while."""
    await asyncio.sleep(0.8)
    return "done"


def begin_runs(rt: Runtime) -> None:
    """Have turns of the parent start all runs. A turn fails whose agent is lost too often."""
    while len(rt.background.list("ada", "s1")) < RUNS:
        try:
            rt.run(user_id="ada", session_id="s1", message="begin").result()
        except AgentLostError:
            continue


def heard(rt: Runtime) -> Counter[str]:
    """How often the parent's log tells of the end of each run."""
    metadata = [event.custom_metadata or {} for event in stored(rt) if event.author == "user"]
    return Counter(each["run"]["id"] for each in metadata if "run" in each)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.usefixtures("local_ray")
def test_each_run_ends_once_and_its_end_is_heard_once_whatever_is_killed(tmp_path: Path, tell: Tell) -> None:
    background = Background(most=RUNS, most_in_all=RUNS)
    helper = AgentTool(LlmAgent(name="helper", description="helps", model=Helper()), background=background)
    began_s = time.monotonic()
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=Starter(), tools=[helper, work])) as rt:
        rt.sessions.create("ada", "s1")
        with Killer(rt, PAUSE_S, seed=1, cores=0.6) as killer:
            begin_runs(rt)
        runs = rt.background.wait("ada", "s1", timeout_s=120)
        until(lambda: len(heard(rt)) == len(runs))
        until(lambda: not rt.turns.list(state="running"))
        assert all(run.is_over for run in runs)
        assert heard(rt) == {run.id: 1 for run in runs}
    of_status = Counter(run.status for run in runs)
    tell(f"{len(runs)} runs, {dict(of_status)}, in {time.monotonic() - began_s:.0f} s, {killed(killer)}")
    assert of_status["done"] > 0.9 * RUNS
    assert killer.kills >= 50
    assert waiting(tmp_path) == []


class Peer(CustomAgent):
    """Sends messages to the next two agents, and reads those of the two before it.

    Attributes:
        number: its place among them.
    """

    number: int

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        """Send all, then read all."""
        for count in range(MESSAGES):
            await context.send(f"p{(self.number + 1 + count % 2) % PEERS}", f"{context.user_content.text} {count}")
            await asyncio.sleep(0.1)
        for _ in range(MESSAGES):
            await context.next_message()
        yield Event(content=Content.of_text("all read", role="model"))


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.usefixtures("local_ray")
def test_messages_of_each_pair_come_in_their_order_each_once_whatever_is_killed(tmp_path: Path, tell: Tell) -> None:
    root = ParallelAgent(name="root", sub_agents=[Peer(name=f"p{number}", number=number) for number in range(PEERS)])
    began_s = time.monotonic()
    with Deploy("ray", tmp_path)(root) as rt:
        # The first turn starts the processes, which takes longer than most others.
        rt.run(user_id="ada", session_id="s1", message="0").result()
        turns = 1
        with Killer(rt, PAUSE_OF_CODE_S, seed=1, cores=0.4) as killer:
            while turns < TURNS or killer.kills < KILLS:
                rt.run(user_id="ada", session_id="s1", message=f"{turns}").result()
                turns += 1
        read: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for event in stored(rt):
            if (sender := event.received().sender) != "user":
                read[sender, event.reader()].append(event.text)
    total = sum(map(len, read.values()))
    tell(f"{total} messages in {time.monotonic() - began_s:.0f} s, {killed(killer)}")
    sent = {
        (f"p{number}", f"p{(number + 1 + to) % PEERS}"): [
            f"{turn} {count}" for turn in range(turns) for count in range(to, MESSAGES, 2)
        ]
        for number in range(PEERS)
        for to in range(2)
    }
    assert total == PEERS * turns * MESSAGES
    assert read == sent
    assert waiting(tmp_path) == []

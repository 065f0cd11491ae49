"""What it costs to give a message to a turn that runs, beside an event that is appended to a session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import Content, Event, LlmAgent, RunConfig
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, median, timed_ms
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import runtime

NAME = "steering"

STEER = RunConfig(on_concurrent_turn="steer")


def measure(plan: Plan) -> list[Figure]:
    """Messages to one turn whose agent runs a tool, and events that are appended to another session, in turns."""
    with TemporaryDirectory() as folder:
        is_enough = Path(folder, "enough")

        async def work() -> str:
            while not is_enough.exists():  # noqa: ASYNC110, ASYNC240
                await asyncio.sleep(0.005)
            return "done"

        worker = LlmAgent(name="worker", model=ScriptedModel([{"call": "work"}, "done"]), tools=[work])
        with runtime(plan, worker, Path(folder)) as rt:
            rt.sessions.create("u", "other")
            turn = rt.run(user_id="u", session_id="s", message="begin")
            events = iter(turn)
            next(events)
            pairs = [(timed_ms(lambda: give(rt)), timed_ms(lambda: append(rt))) for _ in range(plan.steered + 1)]
            is_enough.touch()
            turn.result()
    # The first of each makes connections.
    steered, appended = zip(*pairs[1:], strict=True)
    return [
        Figure(
            benchmark=NAME,
            name="a message is accepted: median",
            value=median(list(steered)),
            unit="ms",
            reference=median(list(appended)),
            reference_name="an event is appended",
        )
    ]


def give(rt: Runtime) -> str:
    """Give a message to the turn that runs; it is accepted when this returns."""
    return rt.run(user_id="u", session_id="s", message="more", run_config=STEER).agent


def append(rt: Runtime) -> Event:
    """Append an event to another session."""
    return rt.sessions.append_event("u", "other", Event(author="user", content=Content.of_text("more")))

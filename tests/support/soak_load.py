"""Turns in many sessions for a long time, and the resources that the processes use meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec

from actors import AgentTool, BaseAgent, LlmAgent, ParallelAgent, ToolContext
from actors.errors import RaygroveError
from actors.interfaces.model import Model
from actors.testing import PatternModel
from runtime import Runtime
from tests.support.machine.process_use import Sample, by_kind, ray_pids, sample


class SoakPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a soak run.

    Attributes:
        turns: of all sessions together.
        at_once: users who talk at the same time.
        session_turns: turns of a session; then its user begins another, and the session is never used again.
        every: turns between two samples.
    """

    turns: int
    at_once: int
    session_turns: int
    every: int


async def run_soak(rt: Runtime, plan: SoakPlan, told: Callable[[Sample], None]) -> list[Sample]:
    """Run the turns, tell each sample as it is taken, and return them all."""
    samples: list[Sample] = []
    sessions, begun, done = count(), count(), count(1)

    async def talk() -> None:
        while True:
            session_id = f"s{next(sessions)}"
            for number in range(plan.session_turns):
                if next(begun) >= plan.turns:
                    return
                message = MESSAGES[number % len(MESSAGES)]
                result = await rt.run(user_id=f"u-{session_id}", session_id=session_id, message=message)
                assert result.text, message
                turns = next(done)
                if turns % plan.every == 0:
                    samples.append(await sample(rt, turns))
                    told(samples[-1])

    async with asyncio.TaskGroup() as group:
        for _ in range(plan.at_once):
            group.create_task(talk())
    return samples


class KillPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a run in which processes are killed.

    Attributes:
        minutes: how long it lasts.
        rate: turns that begin each second.
        kill_every_s, sample_every_s: seconds between two kills, on average, and between two samples.
    """

    minutes: float
    rate: float
    kill_every_s: float
    sample_every_s: float


class KillRun(msgspec.Struct, kw_only=True):
    """What has come of it.

    Attributes:
        samples: what each kind of process uses: of those that are several the most, the agents' processes for example.
        turns: how many have ended.
        failures: what else they have ended with, and how often.
        deleted: sessions.
        kills: processes.
    """

    samples: list[Sample]
    turns: int = 0
    failures: Counter[str]
    deleted: int = 0
    kills: int = 0


async def run_with_kills(rt: Runtime, plan: KillPlan, told: Callable[[Sample, KillRun], None]) -> KillRun:
    """Have turns begin at a rate in sessions of which every other is deleted in the end, while processes are killed."""
    run = KillRun(samples=[], failures=Counter())
    began_s = time.monotonic()

    async def converse(number: int) -> None:
        for text in MESSAGES:
            try:
                result = await rt.run(user_id=f"u{number % 1_000}", session_id=f"s{number}", message=text)
                assert result.text, text
            except RaygroveError as error:
                run.failures[f"{type(error).__name__}: {error}"] += 1
            run.turns += 1
        if number % 2:
            await rt.aio.sessions.delete(f"u{number % 1_000}", f"s{number}")
            run.deleted += 1

    async def look() -> None:
        while True:
            await asyncio.sleep(plan.sample_every_s)
            seen = by_kind(await sample(rt, int(time.monotonic() - began_s)), ray_pids())
            run.samples.append(seen)
            told(seen, run)

    with Killer(rt, plan.kill_every_s, seed=1) as killer:
        looking = asyncio.create_task(look())
        async with asyncio.TaskGroup() as group:
            for number in count():
                if looking.done() or time.monotonic() - began_s > 60 * plan.minutes:
                    break
                group.create_task(converse(number))
                await asyncio.sleep(len(MESSAGES) / plan.rate)
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
    run.kills = killer.kills
    return run


CORES = 0.2
"""The share of Runners and Session actors among what is killed."""


class Killer:
    """Use as a context manager: inside the block one process of a deployment after the other is killed.

    Args:
        rt: a Runtime of the deployment, which is asked where its actors live.
        pause_s: between two kills, on average.
        seed: of the random choice.

    Attributes:
        kills: how many processes were killed.
    """

    def __init__(self, rt: Runtime, pause_s: float, seed: int) -> None:
        self._rt = rt
        self._pause_s = pause_s
        self._random = random.Random(seed)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._kill)
        self.kills = 0

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _kill(self) -> None:
        while not self._is_over.wait(self._pause_s * self._random.uniform(0.5, 1.5)):
            # What cannot be reached is lost already.
            with suppress(RaygroveError, ProcessLookupError):
                self._kill_one()

    def _kill_one(self) -> None:
        figures = self._rt.statistics()
        pids = [agent.pid for agent in figures.agents.values() if agent.pid]
        if self._random.random() < CORES:
            pids = [self._random.choice([figures.runner.pid, figures.session.pid])]
        if pids:
            os.kill(self._random.choice(pids), signal.SIGKILL)
            self.kills += 1


MESSAGES = ("Hello there", "My bill is wrong", "And the invoice of May?", "Back to the desk", "Ask the expert", "Look around")
"""What a user says, one after the other: each makes other agents work."""


def look_up(number: int, tool_context: ToolContext) -> dict[str, int]:
    """Look a bill up."""
    tool_context.state["bills"] = tool_context.state.get("bills", 0) + 1
    return {"number": number, "amount": 42}


def soak_tree(expert_model: Model | None = None) -> BaseAgent:
    """The root; `billing` keeps the conversation until it is sent back, `around` is a workflow.

    Args:
        expert_model: the model of the agent that others ask; None: one by patterns.
    """
    look = {"call": "look_up", "args": {"number": 7}}
    billing = LlmAgent(
        name="billing",
        model=PatternModel([("tool:look_up", "It is settled. " * 8), ("back", {"transfer": "desk"}), ("", look)]),
        tools=[look_up],
    )
    watchers = [LlmAgent(name=name, model=PatternModel([], default="Nothing to be seen. " * 8)) for name in ("left", "right")]
    around = ParallelAgent(name="around", sub_agents=watchers)
    expert = LlmAgent(name="expert", model=expert_model or PatternModel([], default="It depends. " * 8))
    ask = {"call": "expert", "args": {"request": "What do you think?"}}
    patterns: list[tuple[str, Any]] = [("tool:expert", "The expert is not sure."), ("expert", ask)]
    patterns += [("around", {"transfer": "around"}), ("bill|invoice", {"transfer": "billing"})]
    model = PatternModel(patterns, default="At your service. " * 8)
    return LlmAgent(name="desk", model=model, tools=[AgentTool(expert)], sub_agents=[billing, around])

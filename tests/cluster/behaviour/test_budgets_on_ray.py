"""Budgets hold while processes of agents, Runners and Session actors are killed, as a machine without memory does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from actors import Content, FunctionCall, LlmAgent, LlmRequest, LlmResponse, ParallelAgent, Part, RunConfig
from actors.errors import RaygroveError
from actors.messages.config import Budget
from runtime import Runtime, Settings
from tests.support.machine.killer import Killer
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import run_turn, stored
from tests.support.stores.logged_usage import check_usage, fold

AGENTS = 16
LIMIT = 120
KILLS = 25


class SlowSeeker:
    """A model that takes a moment, and calls a tool for ever."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await asyncio.sleep(0.05)
        yield LlmResponse(content=Content(role="model", parts=[Part(function_call=FunctionCall(name="look"))]))


def look() -> str:
    """Look."""
    return "nothing"


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_sixteen_agents_overspend_a_budget_by_one_call_each_at_most_whatever_is_killed(local_ray: str, tmp_path: Path) -> None:
    children = [LlmAgent(name=f"a{number}", model=MeteredModel(SlowSeeker()), tools=[look]) for number in range(AGENTS)]
    settings = Settings(max_live_agents=4)
    store = f"sqlite:///{tmp_path}/s.db"
    kills = turns = 0
    with Runtime(
        ParallelAgent(name="all", sub_agents=children), app_name="spenders", session_store=store, settings=settings
    ) as rt:
        while kills < KILLS:
            with Killer(rt, 0.4, turns) as killer, suppress(RaygroveError):
                run_turn(rt, "go", f"s{turns}", run_config=RunConfig(budget=Budget(llm_calls=LIMIT), timeout=120))
            log = stored(rt, f"s{turns}")
            spent = sum(amounts.llm_calls for amounts in fold(log).values())
            # A lost Session actor forgets what is under way: one call of each agent, which begins the next when that one counts.
            assert spent <= LIMIT + AGENTS, turns
            check_usage(rt, log, session_id=f"s{turns}")
            kills, turns = kills + killer.kills, turns + 1
    assert turns

"""Budgets of every scope hold, whatever happens at the limit, while agents, Runners and Session actors are killed by chance.

`make test-full` plays a few rounds.
`SOAK_KILLS=50 SOAK_FIRST=20 pytest -m soak tests/soak/test_spending.py` plays a part: so many kills, beginning with that round.
`SOAK_AT_LIMIT=wrap_up` leaves out the other choices.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from actors import Content, FunctionCall, LlmAgent, LlmRequest, LlmResponse, ParallelAgent, Part
from actors.errors import RaygroveError
from actors.layers.spending.rules.report import UsageCollector
from actors.messages.config import RunConfig
from actors.rules.accounting.turn_usage import Spent, packed, together
from runtime import Runtime, Settings
from runtime.driver.run_options import run_config_of
from runtime.models import registry
from tests.support.machine.killer import CORES, Killer
from tests.support.machine.terminal import Tell
from tests.support.models.metered_model import MeteredModel
from tests.support.runtimes import run_turn, stored
from tests.support.stores.logged_usage import NO_PRICES, fold

KILLS = int(os.environ.get("SOAK_KILLS", "200"))
FIRST = int(os.environ.get("SOAK_FIRST", "0"))
CHOICES = os.environ.get("SOAK_AT_LIMIT", "stop ask wrap_up model").split()

FEW = 4
"""Kills of the test that plays a few rounds."""

AGENTS, LIMIT, MORE = 16, 60, 20
PAUSE_S, TIMEOUT_S = 0.8, 120.0

SCOPES = {
    "turn": "budget",
    "agent": "agent_budgets",
    "session": "session_budget",
    "user": "user_daily_budget",
    "app": "app_daily_budget",
}
"""The fields of RunConfig that hold the budgets of each scope."""

AT_LIMIT = ("stop", "ask", "wrap_up", "model")
SHARED = ("user", "app")
"""Scopes that several sessions have in common, which run at the same time."""

OWN, CHEAP = "metered", "cheap"


class Seeker:
    """A model that takes a moment, and calls a tool for ever; also where it is told to end."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await asyncio.sleep(0.05)
        yield LlmResponse(content=Content(role="model", parts=[Part(function_call=FunctionCall(name="look"))]))

    def __reduce__(self) -> tuple[object, ...]:
        return (seeker_of_process, ())


def seeker_of_process() -> Seeker:
    """The model, in the process of an agent, where budgets may name the cheap one from then on."""
    registry.FACTORIES = {CHEAP: lambda name: MeteredModel(Seeker(), name)}
    return Seeker()


def look() -> str:
    """Look."""
    return "nothing"


class Round(NamedTuple):
    """Turns of one user that end by one budget.

    Attributes:
        number: names the user and the sessions.
        at_limit: see AT_LIMIT.
        before: calls that others have made of the budget.
    """

    number: int
    scope: str
    at_limit: str
    before: int

    @property
    def user(self) -> str:
        """The user."""
        return f"user-{self.number}"

    @property
    def sessions(self) -> list[str]:
        """The sessions, whose turns run at the same time."""
        return [f"s{self.number}-{each}" for each in range(2 if self.scope in SHARED else 1)]

    @property
    def live(self) -> int:
        """The agents that may have a call under way: each has one in each session."""
        return AGENTS * len(self.sessions)

    def config(self) -> RunConfig:
        """The options of each turn."""
        what = {"model": CHEAP} if self.at_limit == "model" else {"at_limit": self.at_limit}
        budget = {"llm_calls": self.before + LIMIT, **what}
        given: dict[str, Any] = {SCOPES[self.scope]: {"all": budget} if self.scope == "agent" else budget}
        if self.at_limit == "model":
            # The other model has to be bounded, too.
            given["session_budget" if self.scope == "turn" else "budget"] = {"llm_calls": 2 * LIMIT}
        return run_config_of({**given, "timeout": TIMEOUT_S})


def play(rt: Runtime, each: Round) -> int:
    """Run the turns of a round. Where they ask, the first answer gives more, and the next one is no. Returns how many gave."""
    with ThreadPoolExecutor() as threads:
        for turn in [threads.submit(run, rt, each, session) for session in each.sessions]:
            turn.result()
    given = 0
    for response in ({"llm_calls": MORE}, False):
        questions = rt.pending(user_id=each.user)
        if questions:
            check_spent(rt, each, given)
            question = questions[0]
            given += response is not False
            with suppress(RaygroveError):
                rt.answer({question.call_id: response}, user_id=each.user, session_id=question.session_id).result()
    return given


def run(rt: Runtime, each: Round, session: str) -> None:
    """Run a turn, which ends by its budget, or by losses."""
    with suppress(RaygroveError):
        run_turn(rt, "go", session, each.user, run_config=each.config())


def spent_of(rt: Runtime, each: Round) -> Spent:
    """What the logs of a round say was used."""
    whole: Spent = {}
    for session in each.sessions:
        whole = together(whole, fold(stored(rt, session, each.user)))
    return whole


def check_spent(rt: Runtime, each: Round, given: int) -> int:
    """Check that no agent has made more than one call beyond the limit. Returns how many calls are left of it."""
    spent = spent_of(rt, each)
    calls = sum(amounts.llm_calls for (_, model), amounts in spent.items() if model != CHEAP or each.at_limit != "model")
    most = LIMIT + MORE * given + each.live
    assert calls <= most, (each, calls, most)
    return LIMIT + MORE * given - calls


def check_sums(rt: Runtime, each: Round) -> None:
    """Check that the store's sums of the user, the sessions and the turns are those of the logs."""
    for session in each.sessions:
        log = stored(rt, session, each.user)
        for invocation_id in {event.invocation_id for event in log}:
            collector = UsageCollector("agent", NO_PRICES)
            collector.add("", [packed(fold(event for event in log if event.invocation_id == invocation_id))])
            assert rt.usage(each.user, session, invocation_id, by="agent") == collector.report(), (each, invocation_id)
    collector = UsageCollector("agent", NO_PRICES)
    collector.add("", [packed(spent_of(rt, each))])
    assert rt.usage(each.user, by="agent") == collector.report(), each


def rounds() -> Iterator[tuple[int, str, str]]:
    """The rounds, each scope with each choice in turn."""
    kinds = [*product(SCOPES, AT_LIMIT)]
    return ((number, *kinds[number % len(kinds)]) for number in count(FIRST) if kinds[number % len(kinds)][1] in CHOICES)


def spend(folder: Path, kills: int, kinds: int, cores: float = CORES) -> tuple[Killer, dict[str, int], int]:
    """Play rounds, and check each, until so many processes were killed, some of each kind, in so many kinds of rounds.

    Args:
        cores: see Killer.

    Returns:
        Who has killed, how many calls agents had left at least, by the kind of round, and the number of the last round.
    """
    children = [LlmAgent(name=f"a{number}", model=MeteredModel(Seeker(), OWN), tools=[look]) for number in range(AGENTS)]
    settings, store = Settings(max_live_agents=4), f"sqlite:///{folder}/s.db"
    left: dict[str, int] = {}
    root = ParallelAgent(name="all", sub_agents=children)
    # A round may be over before the first kill of a killer of its own.
    with (
        Runtime(root, app_name="spenders", session_store=store, settings=settings) as rt,
        Killer(rt, PAUSE_S, FIRST, cores) as killer,
    ):
        for number, scope, at_limit in rounds():
            before = rt.usage().total.llm_calls if scope == "app" else 0
            each = Round(number, scope, at_limit, before)
            given = play(rt, each)
            name, unused = f"{scope} {at_limit}", check_spent(rt, each, given)
            check_sums(rt, each)
            left[name] = min(unused, left.get(name, unused))
            if killer.kills >= kills and killer.agents and killer.runners and killer.sessions and len(left) >= kinds:
                break
    return killer, left, number


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("local_ray")
def test_budgets_hold_though_processes_of_each_kind_are_killed(tmp_path: Path) -> None:
    # As many of each kind, so that each is soon among them.
    killer, left, _ = spend(tmp_path, FEW, kinds=1, cores=2 / 3)
    assert killer.kills >= FEW
    assert left


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("local_ray")
def test_no_agent_is_more_than_a_call_above_a_budget_whatever_is_killed(tmp_path: Path, tell: Tell) -> None:
    killer, left, last = spend(tmp_path, KILLS, kinds=len(SCOPES))
    killed = {"agents": killer.agents, "runners": killer.runners, "sessions": killer.sessions}
    tell(f"rounds {FIRST} to {last}: killed {killed}; calls left at least: {left}")
    # Some turns end by losses, before they reach their limit.
    assert any(unused <= 0 for unused in left.values())

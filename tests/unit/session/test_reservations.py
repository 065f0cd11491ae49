"""What model calls that are under way have reserved of budgets: each call once, and none of a run that was lost."""

from __future__ import annotations

import msgspec
import pytest

from actors import Budget, RunConfig
from actors.errors import BudgetExceededError, StoreError
from actors.layers.spending.messages import MaySpend, ReserveSpending
from actors.messages import protocol as p
from actors.messages.codec import encode
from tests.support.fixtures.session_fixture import KEY, OTHER, SessionFixture

ONE_CALL = Budget(llm_calls=1)
BUDGETS = {
    "turn": RunConfig(budget=ONE_CALL),
    "agent": RunConfig(agent_budgets={"root": ONE_CALL}),
    "session": RunConfig(session_budget=ONE_CALL),
    "user": RunConfig(user_daily_budget=ONE_CALL),
    "app": RunConfig(app_daily_budget=ONE_CALL),
}


def wanted(session: SessionFixture, run: int, agent: str = "root", epoch: int = 1) -> ReserveSpending:
    """A model call that a run is about to make."""
    return ReserveSpending(turn=session.turn_ref(run=run, epoch=epoch), agent=agent, model="m")


async def answered(session: SessionFixture, run: int, agent: str = "root") -> None:
    """Store the response of a run's model."""
    event = msgspec.structs.replace(session.event(agent, "one"), model_version="m")
    await session.ref.ask(p.Append(turn=session.turn_ref(run=run), events=[encode(event)]))


@pytest.mark.parametrize("whose", BUDGETS)
async def test_a_run_that_asks_again_since_the_reply_was_lost_has_one_call_under_way(session: SessionFixture, whose: str) -> None:
    await session.open(config=BUDGETS[whose])
    for _ in range(2):
        assert isinstance(await session.ref.ask(wanted(session, run=1)), MaySpend)
    with pytest.raises(BudgetExceededError):
        await session.ref.ask(wanted(session, run=2))


@pytest.mark.parametrize("whose", BUDGETS)
@pytest.mark.parametrize("how", ["resumed", "abandoned"])
async def test_calls_of_runs_that_were_lost_are_not_under_way(session: SessionFixture, whose: str, how: str) -> None:
    await session.open(config=BUDGETS[whose])
    await session.ref.ask(wanted(session, run=1))
    epoch = 1
    if how == "resumed":
        resumed = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner"))
        assert isinstance(resumed, p.TurnResumed)
        epoch = resumed.epoch
    else:
        await session.ref.ask(p.AbandonRuns(turn=session.turn_ref(), lost=(1,)))
    assert isinstance(await session.ref.ask(wanted(session, run=2, epoch=epoch)), MaySpend)


async def test_an_agent_whose_call_a_lost_session_actor_had_let_in_makes_no_other_one_beyond_the_budget(
    session: SessionFixture,
) -> None:
    await session.open(config=RunConfig(budget=Budget(llm_calls=1, at_limit="wrap_up")))
    assert isinstance(await session.ref.ask(wanted(session, run=1)), MaySpend)
    heir = await session.reading_heir()
    # It does not know of the call, and lets in another one.
    assert isinstance(await heir.ref.ask(wanted(heir, run=2, agent="a")), MaySpend)
    await answered(heir, 1)
    await answered(heir, 2, "a")
    last = await heir.reading_heir()
    with pytest.raises(BudgetExceededError):
        await last.ref.ask(wanted(last, run=1))
    end = await last.ref.ask(wanted(last, run=2, agent="a"))
    assert isinstance(end, MaySpend)
    assert end.end
    for each in (heir, last):
        await each.ref.stop()


async def test_a_response_that_was_not_stored_counts_for_no_budget_of_the_day(session: SessionFixture) -> None:
    await session.open(config=BUDGETS["app"])
    await session.ref.ask(wanted(session, run=1))
    session.store.failures = 2
    with pytest.raises(StoreError):
        await answered(session, 1)
    await session.ref.ask(p.AnnounceRunner(runner="runner/2", number=0))
    await session.ref.ask(p.DeleteSessionRequest(key=KEY))
    await session.open(key=OTHER, config=BUDGETS["app"], runner="runner/2")
    assert isinstance(await session.ref.ask(ReserveSpending(turn=session.turn_ref(key=OTHER), agent="root", model="m")), MaySpend)

"""A Runner that was replaced while it lives: Session actors never give it its place back, and it ends."""

from __future__ import annotations

import asyncio

import pytest

from actors.messages import protocol as p
from actors.messages.session import ONLY_SHARD
from actors.runner.environment import RunnerPlace
from tests.support.fixtures.session_fixture import SessionFixture, settled


class ReplacedError(Exception):
    """Stands for the end of a process."""


def leave() -> None:
    raise ReplacedError


def of(name: str, term: int) -> RunnerPlace:
    return RunnerPlace(f"app/runner/{name}", ONLY_SHARD, term, leave)


async def refusal(session: SessionFixture, runner: str, term: int = 0) -> p.NotLeader | None:
    """The reply to a Runner that asks something, if it is not heard."""
    reply = await session.ref.ask(p.ListOpenTurns(app="app", runner=runner, term=term))
    return reply if isinstance(reply, p.NotLeader) else None


async def asked_by(place: RunnerPlace, session: SessionFixture) -> str:
    """Have a Runner ask something until it is heard."""

    async def ask() -> str | p.NotLeader:
        return await refusal(session, place.runner_id, place.term) or "heard"

    return await asyncio.wait_for(place.ask_as_leader(session.ref, ask), 5)


@pytest.mark.parametrize("is_lost", [False, True], ids=["actor-lives", "actor-lost"])
async def test_the_one_with_the_later_term_is_heard_and_the_other_one_ends(session: SessionFixture, is_lost: bool) -> None:
    old, new = of("old", 7), of("new", 8)
    assert await asked_by(old, session) == "heard"
    if is_lost:
        # Its successor hears of the old one first.
        session = session.heir()
        assert await asked_by(old, session) == "heard"
    assert await asked_by(new, session) == "heard"
    late = await session.ref.ask(p.AnnounceRunner(runner=old.runner_id, number=1, term=7))
    assert isinstance(late, p.NotLeader)
    assert late.term == 8
    with pytest.raises(ReplacedError):
        await asked_by(old, session)
    assert await asked_by(new, session) == "heard"


async def test_what_stood_by_and_leads_before_it_has_its_term_waits_for_it(session: SessionFixture) -> None:
    old, new = of("old", 7), of("new", 0)
    assert await asked_by(old, session) == "heard"
    asking = asyncio.create_task(asked_by(new, session))
    await settled()
    assert not asking.done()
    new.promote(8)
    assert await asking == "heard"
    with pytest.raises(ReplacedError):
        await asked_by(old, session)


async def test_a_runner_that_takes_over_from_one_whose_clock_was_ahead_is_heard_and_later_ones_replace_it(
    session: SessionFixture,
) -> None:
    other_session = session.heir()
    before, lost, following = of("before", 2), of("lost", 1_001), of("following", 4)
    for each in (session, other_session):
        assert await asked_by(before, each) == "heard"
        assert await asked_by(lost, each) == "heard"
    following.is_promoting = True
    for each in (session, other_session):
        assert await asked_by(following, each) == "heard"
    following.is_promoting = False
    # It stays even, as the terms of its process are.
    assert following.term == 1_002
    # The one before, should it live after all, ends.
    with pytest.raises(ReplacedError):
        await asked_by(lost, session)
    assert await asked_by(of("later", 1_003), session) == "heard"
    with pytest.raises(ReplacedError):
        await asked_by(following, session)


async def test_one_that_hears_again_of_its_takeover_keeps_the_later_term_that_it_has_learned_of(session: SessionFixture) -> None:
    lost, new = of("lost", 9), of("new", 0)
    assert await asked_by(lost, session) == "heard"
    new.promote(2)
    assert await asked_by(new, session) == "heard"
    learned = new.term
    new.promote(2)
    assert new.term == learned > 9
    assert await asked_by(new, session) == "heard"

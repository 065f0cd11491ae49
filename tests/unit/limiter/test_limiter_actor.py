"""The actor that says who may ask a model: permits, those who wait for them, and processes that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from actors.layers.limiter.actor import LimiterActor
from actors.layers.limiter.limits import ModelLimits
from actors.layers.limiter.messages import AcquirePermit, GetWaitingCalls, ReleasePermit, RenewPermits
from actors.layers.limiter.rate_limiter import LEASE_S
from actors.messages.session import SessionKey
from actors.refs import Ref
from runtime.engine.local import LocalLink
from tests.support.fixtures.session_fixture import Clock, settled
from tests.support.virtual_time import run_virtually

LIMITS = {"m*": ModelLimits(max_concurrency=1)}


class LimiterFixture:
    """The limiter's actor, with short ways to use it."""

    def __init__(self, now_s: Callable[[], float] | None = None) -> None:
        self.clock = Clock()
        self.ref = Ref(LocalLink(LimiterActor(LIMITS, clock=now_s or self.clock, chance=lambda: 0.0)))

    def ask(self, permit: str, *, holder: str = "h", model: str = "m", **more: Any) -> asyncio.Task[bool]:
        session = SessionKey("app", "ada", permit[0])
        message = AcquirePermit(permit=permit, holder=holder, model=model, session=session, **more)
        return asyncio.create_task(self._asked(message))

    async def _asked(self, message: AcquirePermit) -> bool:
        while (reply := await self.ref.ask(message)).again:
            pass
        return reply.granted

    async def release(self, permit: str, **more: Any) -> None:
        await self.ref.ask(ReleasePermit(permit=permit, **more))

    async def renew(self, holder: str, **held: str) -> None:
        await self.ref.ask(RenewPermits(holder=holder, held=held))

    async def counts(self, model: str = "m") -> dict[str, int]:
        return (await self.ref.statistics()).models[model]


@pytest.fixture
async def limiter() -> AsyncIterator[LimiterFixture]:
    made = LimiterFixture()
    yield made
    await made.ref.stop()


async def test_where_the_calls_of_a_session_wait_is_told(limiter: LimiterFixture) -> None:
    asked = [limiter.ask(permit) for permit in ("a1", "b1", "b2", "c1")]
    await settled()
    limiter.clock.now_s += 7
    asked += [limiter.ask("b3", model="m2"), limiter.ask("b4", model="m2")]
    await settled()

    async def told(session: str) -> list[tuple[str, int, int, float, int, float]]:
        calls = (await limiter.ref.ask(GetWaitingCalls(session=SessionKey("app", "ada", session)))).calls
        return [
            (each.model, each.before, each.running, each.waiting_s, each.failed_attempts, each.repeats_in_s) for each in calls
        ]

    assert await told("a") == await told("none") == []
    assert await told("b") == [("m", 0, 1, 7, 0, 0), ("m", 2, 1, 7, 0, 0), ("m2", 0, 1, 0, 0, 0)]
    assert await told("c") == [("m", 1, 1, 7, 0, 0)]
    # One that is to be repeated waits for its backoff.
    asked.append(limiter.ask("a1", attempt=1, status=503, retry_after_s=9.0))
    await settled()
    assert await told("a") == [("m", 0, 1, 0, 1, 9)]
    for task in asked:
        task.cancel()


async def test_who_asks_is_answered_when_the_call_may_begin(limiter: LimiterFixture) -> None:
    one, two, other = limiter.ask("a1"), limiter.ask("b1"), limiter.ask("c1", model="m2")
    assert await one
    assert await other
    await settled()
    assert not two.done()
    assert await limiter.counts() == {"granted": 1, "retried": 0, "retries_refused": 0, "running": 1, "waiting": 1}
    await limiter.release("a1", answered=True)
    assert await two


async def test_who_asks_again_since_the_answer_was_lost_has_the_same_permit(limiter: LimiterFixture) -> None:
    assert await limiter.ask("a1")
    assert await limiter.ask("a1")
    waiting, again = limiter.ask("b1"), limiter.ask("b1")
    await settled()
    assert (await limiter.counts())["waiting"] == 1
    await limiter.release("a1")
    assert await waiting
    assert await again
    assert (await limiter.counts())["granted"] == 2


async def test_who_is_not_there_any_more_leaves_the_line_also_when_his_messages_overtake_each_other(
    limiter: LimiterFixture,
) -> None:
    assert await limiter.ask("a1")
    waiting = limiter.ask("b1")
    await settled()
    await limiter.release("b1")
    assert not await waiting
    await limiter.release("c1")
    assert not await limiter.ask("c1")
    await limiter.release("a1")
    counts = await limiter.counts()
    assert (counts["running"], counts["waiting"]) == (0, 0)


async def test_what_a_process_held_that_is_gone_is_free_again(limiter: LimiterFixture) -> None:
    assert await limiter.ask("a1", holder="gone")
    lost, waiting = limiter.ask("b1", holder="gone"), limiter.ask("c1", holder="here")
    await settled()
    for _ in range(2):
        limiter.clock.now_s += LEASE_S / 2
        await limiter.renew("here")
    await settled()
    assert waiting.done()
    assert await waiting
    # A process that was only stopped asks again, and waits behind those who waited meanwhile.
    assert not lost.done()
    # And who renews keeps what he has.
    limiter.clock.now_s += LEASE_S / 2
    await limiter.renew("here", c1="m")
    assert (await limiter.counts())["running"] == 1
    await limiter.release("c1")
    assert await lost


async def test_what_was_released_is_not_brought_back_by_a_renewal_that_was_overtaken(limiter: LimiterFixture) -> None:
    assert await limiter.ask("a1", holder="here")
    waiting = limiter.ask("b1", holder="here")
    await settled()
    await limiter.release("a1", answered=True)
    await limiter.renew("here", a1="m")
    assert await waiting
    await limiter.release("b1", answered=True)
    assert (await limiter.counts())["running"] == 0
    # Nor is one whose repetition was refused.
    assert await limiter.ask("c1", holder="here")
    assert not await limiter.ask("c1", holder="here", attempt=5)
    await limiter.renew("here", c1="m")
    assert (await limiter.counts())["running"] == 0


async def test_time_in_which_the_actor_did_not_run_ends_no_lease(limiter: LimiterFixture) -> None:
    assert await limiter.ask("a1", holder="one")
    waiting = limiter.ask("b1", holder="two")
    await settled()
    # Both have renewed meanwhile, and the actor takes one renewal after the other.
    limiter.clock.now_s += LEASE_S * 3
    await limiter.renew("two")
    await settled()
    assert not waiting.done()
    await limiter.renew("one", a1="m")
    assert await limiter.counts() == {"granted": 1, "retried": 0, "retries_refused": 0, "running": 1, "waiting": 1}
    await limiter.release("a1")
    assert await waiting


async def test_an_actor_that_was_lost_hears_of_the_calls_that_are_under_way(limiter: LimiterFixture) -> None:
    await limiter.renew("here", a1="m")
    waiting = limiter.ask("b1")
    await settled()
    assert not waiting.done()
    await limiter.renew("here", a1="m")
    await limiter.release("a1", answered=True)
    assert await waiting
    # One that has ended meanwhile is not held again by a word that was on its way.
    await limiter.release("b1")
    await limiter.release("d1")
    await limiter.renew("here", d1="m")
    assert (await limiter.counts())["running"] == 0


async def test_what_was_released_before_an_actor_was_lost_is_not_held_by_a_renewal_that_came_late(
    limiter: LimiterFixture,
) -> None:
    await limiter.renew("h", a="m", b="m")
    assert (await limiter.counts())["running"] == 2
    await limiter.renew("h", b="m")
    assert (await limiter.counts())["running"] == 1


def test_a_failure_that_may_pass_is_waited_for() -> None:
    async def play() -> None:
        limiter = LimiterFixture(asyncio.get_running_loop().time)
        assert await limiter.ask("a1")
        again = limiter.ask("a1", attempt=1, status=429, retry_after_s=10)
        await asyncio.sleep(1)
        other = limiter.ask("b1")
        await asyncio.sleep(8)
        assert not again.done()
        assert not other.done()
        await asyncio.sleep(2)
        # Its turn comes behind that of the session which has waited meanwhile.
        assert await other
        assert not again.done()
        await limiter.release("b1", answered=True)
        assert await again
        assert (await limiter.counts())["retried"] == 1
        await limiter.ref.stop()

    run_virtually(play())


async def test_a_call_that_may_not_be_made_again_is_told_so_at_once_and_is_over(limiter: LimiterFixture) -> None:
    assert await limiter.ask("a1")
    assert not await limiter.ask("a1", attempt=5)
    assert await limiter.ask("b1")
    assert (await limiter.counts())["retries_refused"] == 1


async def test_nobody_waits_for_an_actor_that_is_stopped(limiter: LimiterFixture) -> None:
    assert await limiter.ask("a1")
    waiting = limiter.ask("b1")
    await settled()
    await limiter.ref.stop()
    assert not await waiting

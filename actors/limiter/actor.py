"""The actor that says who may ask a model: one for a deployment, and only where models are limited.

Whoever asks names a permit of its own making, and is answered when the call may begin. It keeps nothing that it could not do
without: when its process is lost Ray starts it again, those that wait ask again, and those whose calls are under way tell it so
within `RENEW_S`. Until then more calls than `max_concurrency` may be under way, and those of the last minute are not known.
A permit is leased: a process that has not been heard of for `LEASE_S` is gone, and what it held is free again.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from actors.actor import Actor, Handler
from actors.messages import protocol as p
from actors.messages.limits import ModelLimits
from actors.rules.capacity.rate_limiter import LEASE_S, FailedAttempt, RateLimiter, limits_of

LEFT = 10_000
"""Permits that were given back before they were asked for: messages may overtake each other. So many are remembered."""


class _Asked(NamedTuple):
    model: str
    holder: str
    attempt: int
    answer: asyncio.Future[bool] | None


class LimiterActor(Actor):
    """See the head of this file.

    Args:
        limits: of models, by name or pattern.
        name: for messages and statistics.
        clock: seconds that only go forward; by default those of the event loop.
        chance: gives numbers from 0 to 1, by which waits are spread.
    """

    def __init__(
        self,
        limits: Mapping[str, ModelLimits],
        name: str = "limits",
        clock: Callable[[], float] | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(name)
        self._limits = limits
        self._clock = clock
        self._chance = chance
        self._models: dict[str, RateLimiter] = {}
        self._asked: dict[str, _Asked] = {}
        self._heard_s: dict[str, float] = {}
        self._left: dict[str, None] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watch: asyncio.TimerHandle | None = None

    def handlers(self) -> Mapping[type[p.Message], Handler]:
        """The messages that the actor takes."""
        return {
            p.AcquirePermit: self.acquire,
            p.ReleasePermit: self.release,
            p.RenewPermits: self.renew,
            p.GetStatistics: self.statistics,
            p.Stop: self.stop,
        }

    # ------------------------------------------------------------------------------------------------- permits
    async def acquire(self, message: p.AcquirePermit) -> p.PermitReply:
        """Answer when the call may begin."""
        permit = message.permit
        if permit in self._left:
            del self._left[permit]
            return p.PermitReply(granted=False)
        known = self._asked.get(permit)
        if known is not None and known.answer is not None and known.attempt == message.attempt:
            # Sent again, since nobody was there to hear the answer.
            return p.PermitReply(granted=await asyncio.shield(known.answer))
        permits = self._permits(message.model)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asked[permit] = _Asked(message.model, message.holder, message.attempt, answer)
        self._hear(message.holder)
        if message.attempt:
            trouble = FailedAttempt(attempt=message.attempt, status=message.status, retry_after_s=message.retry_after_s)
            if not permits.retry(permit, message.session, trouble, self._now_s(), self._chance()):
                del self._asked[permit]
                answer.set_result(False)
        else:
            permits.ask(permit, message.session)
        self._settle(message.model)
        return p.PermitReply(granted=await answer)

    async def release(self, message: p.ReleasePermit) -> p.Ack:
        """Take a permit back, or its owner out of the line."""
        if message.permit in self._asked:
            self._let_go([message.permit], message.tokens, answered=message.answered)
        else:
            self._left[message.permit] = None
            if len(self._left) > LEFT:
                del self._left[next(iter(self._left))]
        return p.Ack()

    async def renew(self, message: p.RenewPermits) -> p.Ack:
        """Hear that a process lives, and which calls of it are under way: some may not be known here."""
        self._hear(message.holder)
        self._look_after()
        for permit, model in message.held.items():
            if permit not in self._asked and permit not in self._left:
                self._asked[permit] = _Asked(model, message.holder, 0, None)
                self._permits(model).hold(permit)
        return p.Ack()

    def _let_go(self, permits: Sequence[str], tokens: int = 0, *, answered: bool = False) -> None:
        """Calls are over. None of them is granted in place of another."""
        models: dict[str, None] = {}
        for permit in permits:
            asked = self._asked.pop(permit)
            if asked.answer is not None and not asked.answer.done():
                asked.answer.set_result(False)
            self._permits(asked.model).end(permit, self._now_s(), tokens, answered=answered)
            models[asked.model] = None
        for model in models:
            self._settle(model)

    def _permits(self, model: str) -> RateLimiter:
        permits = self._models.get(model)
        if permits is None:
            permits = self._models[model] = RateLimiter(limits_of(model, self._limits) or ModelLimits())
        return permits

    def _settle(self, model: str) -> None:
        """Let those go who may, and come back when others may."""
        permits, now_s = self._models[model], self._now_s()
        for permit in permits.grant(now_s):
            answer = self._asked[permit].answer
            if answer is not None and not answer.done():
                answer.set_result(True)
        timer = self._timers.pop(model, None)
        if timer is not None:
            timer.cancel()
        wait_s = permits.wait_s(now_s)
        if wait_s is not None:
            self._timers[model] = asyncio.get_running_loop().call_later(wait_s, self._settle, model)

    # ------------------------------------------------------------------------------------------------- leases
    def _hear(self, holder: str) -> None:
        self._heard_s[holder] = self._now_s()
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(LEASE_S / 3, self._look_after)

    def _look_after(self) -> None:
        """Take back what processes hold that are gone, and come back to see."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        now_s = self._now_s()
        gone = {holder for holder, heard_s in self._heard_s.items() if now_s - heard_s >= LEASE_S}
        self._let_go([permit for permit, asked in self._asked.items() if asked.holder in gone])
        for holder in gone:
            del self._heard_s[holder]
        if self._heard_s:
            self._watch = asyncio.get_running_loop().call_later(LEASE_S / 3, self._look_after)

    def _now_s(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()

    # ------------------------------------------------------------------------------------------------- everything else
    async def statistics(self, _: p.GetStatistics) -> p.Statistics:
        """Tell what each model has been asked."""
        models = {
            model: {**permits.counts, "running": permits.running, "waiting": permits.waiting}
            for model, permits in self._models.items()
        }
        return p.Statistics(actor=self.name, pid=os.getpid(), models=models)

    async def stop(self, _: p.Stop) -> p.Ack:
        """Let nobody wait any more."""
        self._let_go(list(self._asked))
        for timer in (*self._timers.values(), *([self._watch] if self._watch is not None else [])):
            timer.cancel()
        return p.Ack()

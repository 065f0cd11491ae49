"""The actor that limits model calls: one for a deployment, and only if models have limits.

Clients name the permits that they ask for, and the reply comes when the call may begin. The actor keeps nothing that cannot be
rebuilt: when its process is lost and started again, waiting clients ask again, and the permits of running calls come with the
next renewal, within `RENEW_S`. Until then more calls than `max_concurrency` may run, and those of the last minute are not known.
A permit is leased: what a process holds is free again when it has not renewed for `LEASE_S`. A process that was only stopped for
so long asks again for its calls that waited. Time in which this actor did not run itself ends no lease.

Limits that operators have changed are kept elsewhere before they count, and the actor begins with them when it is started again.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from actors.actor import Actor, Handlers
from actors.layers.limiter.limits import ModelLimits, changed_limits, in_force, limits_of, name_of
from actors.layers.limiter.messages import (
    AcquirePermit,
    ChangeModelLimits,
    GetModelLimits,
    GetWaitingCalls,
    ModelLimitsReply,
    ModelWait,
    PermitReply,
    ReleasePermit,
    RenewPermits,
    WaitingCallsReply,
    limited_model,
)
from actors.layers.limiter.rate_limiter import LEASE_S, RENEW_S, FailedAttempt, RateLimiter
from actors.messages import protocol as p

MAX_RELEASED = 10_000
"""How many permits are remembered that were released: messages may overtake each other, and neither a request nor a renewal that
comes late brings one back."""


class KeptLimits(Protocol):
    """Keeps limits that operators have changed, for as long as the deployment lives. Its methods may block."""

    def read(self) -> Mapping[str, ModelLimits]:
        """The changed limits by names and patterns."""
        ...

    def keep(self, changed: Mapping[str, ModelLimits]) -> None:
        """Keep these in place of those before. Raises ClusterError."""
        ...


class _Permit(NamedTuple):
    """A permit that is waited for or held; `granted` is None if it came with a renewal. `asked_s`: when it was asked for."""

    model: str
    holder: str
    attempt: int
    granted: asyncio.Future[PermitReply] | None
    asked_s: float = 0.0


class LimiterActor(Actor):
    """Grants permits for model calls, one rate limiter for each model, and takes back those whose lease has ended.

    Args:
        limits: of models, by name or pattern.
        name: for messages and statistics.
        clock: seconds that only go forward; by default those of the event loop.
        chance: returns numbers from 0 to 1, by which waits are spread.
        user_weights: see `actors.messages.config.Limits`.
        changes: keeps limits that are changed; None: they last as long as the actor.
    """

    def __init__(
        self,
        limits: Mapping[str, ModelLimits],
        name: str = "limits",
        clock: Callable[[], float] | None = None,
        chance: Callable[[], float] = random.random,
        user_weights: Mapping[str, int] = MappingProxyType({}),
        changes: KeptLimits | None = None,
    ) -> None:
        super().__init__(name)
        self._user_weights = user_weights
        self._settings = limits
        self._changes = changes
        self._changed: Mapping[str, ModelLimits] = changes.read() if changes is not None else {}
        self._limits = in_force(limits, self._changed)
        self._changing = asyncio.Lock()
        self._clock = clock
        self._chance = chance
        self._limiters: dict[str, RateLimiter] = {}
        self._permits: dict[str, _Permit] = {}
        self._renewed_s: dict[str, float] = {}
        self._released: dict[str, None] = {}
        self._grant_timers: dict[str, asyncio.TimerHandle] = {}
        self._lease_timer: asyncio.TimerHandle | None = None
        self._looks_at_s = 0.0

    def handlers(self) -> Handlers:
        """The messages that the actor takes."""
        return {
            AcquirePermit: self.acquire,
            ReleasePermit: self.release,
            RenewPermits: self.renew,
            GetWaitingCalls: self.get_waiting_calls,
            GetModelLimits: self.get_model_limits,
            ChangeModelLimits: self.change_model_limits,
            p.GetStatistics: self.statistics,
            p.Stop: self.stop,
        }

    async def acquire(self, message: AcquirePermit) -> PermitReply:
        """Reply when the call may begin, or at once if it may not be repeated."""
        permit = message.permit
        if permit in self._released:
            return PermitReply(granted=False)
        known = self._permits.get(permit)
        if known is not None and known.granted is not None and known.attempt == message.attempt:
            # The message was sent again because its reply was lost.
            return await asyncio.shield(known.granted)
        limiter = self._limiter(message.model)
        granted: asyncio.Future[PermitReply] = asyncio.get_running_loop().create_future()
        self._permits[permit] = _Permit(message.model, message.holder, message.attempt, granted, self._now_s())
        self._renew_lease(message.holder)
        if message.attempt:
            failed = FailedAttempt(attempt=message.attempt, status=message.status, retry_after_s=message.retry_after_s)
            if not limiter.retry(permit, message.session, failed, self._now_s(), self._chance()):
                del self._permits[permit]
                self._note_released(permit)
                granted.set_result(PermitReply(granted=False))
        else:
            limiter.enqueue(permit, message.session)
        self._grant_waiting(message.model)
        return await granted

    async def release(self, message: ReleasePermit) -> p.Ack:
        """Take a permit back, or its call out of the queue."""
        self._note_released(message.permit)
        if message.permit in self._permits:
            self._free([message.permit], message.tokens, answered=message.answered)
        return p.Ack()

    def _note_released(self, permit: str) -> None:
        self._released[permit] = None
        if len(self._released) > MAX_RELEASED:
            del self._released[next(iter(self._released))]

    async def renew(self, message: RenewPermits) -> p.Ack:
        """Renew a process's lease, and take in permits that an earlier process of this actor has granted.

        One of them that the process does not name any more was given back while a renewal that named it was on its way.
        """
        self._renew_lease(message.holder)
        self._end_leases()
        taken_in = [each for each, held in self._permits.items() if held.granted is None and held.holder == message.holder]
        self._free([permit for permit in taken_in if permit not in message.held])
        for permit, model in message.held.items():
            if permit not in self._permits and permit not in self._released:
                self._permits[permit] = _Permit(model, message.holder, 0, None)
                self._limiter(model).hold_permit(permit)
        return p.Ack()

    async def get_waiting_calls(self, message: GetWaitingCalls) -> WaitingCallsReply:
        """Tell where the calls of a session wait."""
        now_s = self._now_s()
        calls = [
            ModelWait(
                model=model,
                before=place.before,
                running=limiter.running,
                waiting_s=now_s - self._permits[permit].asked_s,
                failed_attempts=self._permits[permit].attempt,
                repeats_in_s=max(0.0, place.repeats_in_s),
            )
            for model, limiter in self._limiters.items()
            for permit, place in limiter.places(message.session, now_s).items()
            if permit in self._permits
        ]
        return WaitingCallsReply(calls=calls)

    async def get_model_limits(self, _: GetModelLimits) -> ModelLimitsReply:
        """Tell which limits hold, and how many calls go by them."""
        figures = {name: [0, 0] for name in self._limits}
        for model, limiter in self._limiters.items():
            if (name := name_of(model, self._limits)) in figures:
                figures[name][0] += limiter.running
                figures[name][1] += limiter.waiting
        found = [
            limited_model(name, limits, changed=name in self._changed, running=figures[name][0], waiting=figures[name][1])
            for name, limits in self._limits.items()
        ]
        return ModelLimitsReply(limits=found)

    async def change_model_limits(self, message: ChangeModelLimits) -> ModelLimitsReply:
        """Change limits, for calls that wait, too. Raises RequestError, DefinitionError, ClusterError: nothing has changed."""
        async with self._changing:
            if message.change is None:
                changed = {name: limits for name, limits in self._changed.items() if name != message.model}
            else:
                changed = dict(changed_limits(message.model, message.change, self._settings, self._changed))
            if self._changes is not None:
                await asyncio.to_thread(self._changes.keep, changed)
            self._changed, self._limits = changed, in_force(self._settings, changed)
        for model, limiter in self._limiters.items():
            limiter.change(limits_of(model, self._limits) or ModelLimits())
            self._grant_waiting(model)
        return await self.get_model_limits(GetModelLimits())

    def _free(self, permits: Sequence[str], tokens: int = 0, *, answered: bool = False, again: bool = False) -> None:
        """End calls. The limiter grants none of these permits in place of another.

        Args:
            again: see PermitReply.
        """
        models: dict[str, None] = {}
        for permit in permits:
            ended = self._permits.pop(permit)
            if ended.granted is not None and not ended.granted.done():
                ended.granted.set_result(PermitReply(granted=False, again=again))
            self._limiter(ended.model).end_call(permit, self._now_s(), tokens, answered=answered)
            models[ended.model] = None
        for model in models:
            self._grant_waiting(model)

    def _limiter(self, model: str) -> RateLimiter:
        limiter = self._limiters.get(model)
        if limiter is None:
            limiter = self._limiters[model] = RateLimiter(limits_of(model, self._limits) or ModelLimits(), self._user_weights)
        return limiter

    def _grant_waiting(self, model: str) -> None:
        """Grant what may begin now, and come back when more may."""
        limiter, now_s = self._limiters[model], self._now_s()
        for permit in limiter.grant(now_s):
            granted = self._permits[permit].granted
            if granted is not None and not granted.done():
                granted.set_result(PermitReply(granted=True))
        timer = self._grant_timers.pop(model, None)
        if timer is not None:
            timer.cancel()
        wait_s = limiter.wait_s(now_s)
        if wait_s is not None:
            self._grant_timers[model] = asyncio.get_running_loop().call_later(wait_s, self._grant_waiting, model)

    def _renew_lease(self, holder: str) -> None:
        self._renewed_s[holder] = self._now_s()
        if self._lease_timer is None:
            self._look_later()

    def _look_later(self) -> None:
        self._looks_at_s = self._now_s() + LEASE_S / 3
        self._lease_timer = asyncio.get_running_loop().call_later(LEASE_S / 3, self._end_leases)

    def _end_leases(self) -> None:
        """Take back what processes hold that have not renewed, and come back to look again."""
        if self._lease_timer is not None:
            self._lease_timer.cancel()
            self._lease_timer = None
        now_s = self._now_s()
        late_s = now_s - self._looks_at_s
        if late_s > RENEW_S:
            # This process was stopped, and renewals may wait for it.
            self._renewed_s = {holder: renewed_s + late_s for holder, renewed_s in self._renewed_s.items()}
        gone = {holder for holder, renewed_s in self._renewed_s.items() if now_s - renewed_s >= LEASE_S}
        if gone:
            self._free([permit for permit, held in self._permits.items() if held.holder in gone], again=True)
        for holder in gone:
            del self._renewed_s[holder]
        if self._renewed_s:
            self._look_later()

    def _now_s(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()

    async def statistics(self, _: p.GetStatistics) -> p.Statistics:
        """Return figures of each model's calls."""
        return self.figures()

    def figures(self) -> p.Statistics:
        """Figures of each model's calls."""
        models = {
            model: {**limiter.counts, "running": limiter.running, "waiting": limiter.waiting}
            for model, limiter in self._limiters.items()
        }
        return p.Statistics(actor=self.name, pid=os.getpid(), models=models, connections=self.connections())

    async def stop(self, _: p.Stop) -> p.Ack:
        """Refuse all calls that wait."""
        self._free(list(self._permits))
        for timer in (*self._grant_timers.values(), *([self._lease_timer] if self._lease_timer is not None else [])):
            timer.cancel()
        return p.Ack()

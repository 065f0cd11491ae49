"""Defects of limits: permits that are lost or granted twice, changes that do not hold, and calls that are let in out of turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

from actors.agent.rate_limited_model import LimiterClient
from actors.limiter import actor as actor_module
from actors.limiter.actor import LimiterActor
from actors.limiter.changed_limits import changed_limits, in_force
from actors.messages import protocol as p
from actors.rules.capacity.rate_limiter import RateLimiter


def released_permits_are_forgotten() -> AbstractContextManager[object]:
    """A renewal or a request that comes late brings back a permit that was released."""
    return mock.patch.object(LimiterActor, "_note_released")


def calls_that_lost_their_place_are_refused() -> AbstractContextManager[object]:
    """A process that was stopped for long is told that its calls may not be made: it makes them without a permit, or fails."""
    free: Any = LimiterActor._free

    def refusing(self: LimiterActor, permits: Any, tokens: int = 0, **more: bool) -> None:
        free(self, permits, tokens, answered=more.get("answered", False))

    return mock.patch.object(LimiterActor, "_free", refusing)


def a_stopped_actor_ends_all_leases() -> AbstractContextManager[object]:
    """Leases end while the actor itself does not run."""
    return mock.patch.object(actor_module, "RENEW_S", float("inf"))


def changes_are_lost_with_the_actor() -> AbstractContextManager[object]:
    """An actor that is started again goes by the settings."""
    begin: Any = LimiterActor.__init__

    def forgetful(self: LimiterActor, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        self._changed, self._limits = {}, in_force(self._settings, {})

    return mock.patch.object(LimiterActor, "__init__", forgetful)


def changes_at_once_overwrite_each_other() -> AbstractContextManager[object]:
    """A change begins with what was changed before another one was kept."""
    begin: Any = LimiterActor.__init__

    def unlocked(self: LimiterActor, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        self._changing = nullcontext()  # type: ignore[assignment]

    return mock.patch.object(LimiterActor, "__init__", unlocked)


def models_in_use_keep_their_limits() -> AbstractContextManager[object]:
    """A change holds for models that were not called yet."""
    return mock.patch.object(RateLimiter, "change")


def waiting_calls_do_not_hear_of_changes() -> AbstractContextManager[object]:
    """A call that waits begins when another one ends, though there is room since a change."""
    change: Any = LimiterActor.change_model_limits

    async def silent(self: LimiterActor, message: p.ChangeModelLimits) -> Any:
        with mock.patch.object(self, "_grant_waiting"):
            return await change(self, message)

    return mock.patch.object(LimiterActor, "change_model_limits", silent)


def resets_change_nothing() -> AbstractContextManager[object]:
    """A model that is reset goes by what it had."""
    change: Any = LimiterActor.change_model_limits

    async def deaf(self: LimiterActor, message: p.ChangeModelLimits) -> Any:
        if message.change is None:
            return await self.get_model_limits(p.GetModelLimits())
        return await change(self, message)

    return mock.patch.object(LimiterActor, "change_model_limits", deaf)


def resets_are_of_all_models() -> AbstractContextManager[object]:
    """With a model all others are reset."""
    change: Any = LimiterActor.change_model_limits

    async def careless(self: LimiterActor, message: p.ChangeModelLimits) -> Any:
        if message.change is None:
            self._changed = {}
        return await change(self, message)

    return mock.patch.object(LimiterActor, "change_model_limits", careless)


def changes_forget_other_fields() -> AbstractContextManager[object]:
    """A change of one field brings back those of the settings for the others."""
    changed: Any = changed_limits
    return mock.patch.object(
        actor_module, "changed_limits", lambda name, change, settings, _: changed(name, change, settings, {})
    )


def leases_never_end() -> AbstractContextManager[object]:
    """What a lost process holds is never free again."""
    return mock.patch.object(LimiterActor, "_end_leases")


def running_calls_are_not_told() -> AbstractContextManager[object]:
    """An actor that is started again never learns which calls run."""
    renew: Any = LimiterActor.renew

    async def deaf(self: LimiterActor, message: p.RenewPermits) -> Any:
        return await renew(self, p.RenewPermits(holder=message.holder, held={}))

    return mock.patch.object(LimiterActor, "renew", deaf)


def calls_that_end_early_stay_in_line() -> AbstractContextManager[object]:
    """A call that is stopped while it waits keeps its place."""
    release: Any = LimiterClient.release

    def silent(self: LimiterClient, permit: str, tokens: int = 0, *, answered: bool = False) -> None:
        if self._permits.get(permit) is None:
            self._permits.pop(permit, None)
        else:
            release(self, permit, tokens, answered=answered)

    return mock.patch.object(LimiterClient, "release", silent)


def requests_that_are_sent_again_are_new() -> AbstractContextManager[object]:
    """A request that is sent again, since its reply was lost, takes another permit."""
    acquire: Any = LimiterActor.acquire

    async def counting(self: LimiterActor, message: p.AcquirePermit) -> Any:
        if message.permit in self._permits and not message.attempt:
            message = p.AcquirePermit(
                permit=f"{message.permit} again", holder=message.holder, model=message.model, session=message.session
            )
        return await acquire(self, message)

    return mock.patch.object(LimiterActor, "acquire", counting)


def users_do_not_take_turns() -> AbstractContextManager[object]:
    """Calls are let in in the order in which they came."""

    def enqueue(self: RateLimiter, permit: str, session: Any) -> None:
        self._session_of[permit] = session
        self._waiting.add(permit, "", "")

    return mock.patch.object(RateLimiter, "_enqueue", enqueue)


def failed_calls_keep_their_permits() -> AbstractContextManager[object]:
    """A call that waits to be repeated counts as one that runs."""
    retry: Any = RateLimiter.retry

    def holding(self: RateLimiter, permit: str, *args: Any) -> bool:
        may_repeat: bool = retry(self, permit, *args)
        self._running.add(permit)
        return may_repeat

    return mock.patch.object(RateLimiter, "retry", holding)


def minutes_begin_anew_with_changes() -> AbstractContextManager[object]:
    """What began in the last minute is forgotten when limits are changed."""
    change: Any = RateLimiter.change

    def forgetful(self: RateLimiter, limits: Any) -> None:
        change(self, limits)
        self._begun_s.clear()

    return mock.patch.object(RateLimiter, "change", forgetful)


def tokens_do_not_count() -> AbstractContextManager[object]:
    """What answers used is taken for nothing."""
    end: Any = RateLimiter.end_call

    def free(self: RateLimiter, permit: str, now_s: float, tokens: int = 0, *, answered: bool = True) -> None:
        end(self, permit, now_s, 0, answered=answered)

    return mock.patch.object(RateLimiter, "end_call", free)


MUTANTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    each.__name__: each
    for each in (
        released_permits_are_forgotten,
        calls_that_lost_their_place_are_refused,
        a_stopped_actor_ends_all_leases,
        changes_are_lost_with_the_actor,
        changes_at_once_overwrite_each_other,
        models_in_use_keep_their_limits,
        waiting_calls_do_not_hear_of_changes,
        resets_change_nothing,
        resets_are_of_all_models,
        changes_forget_other_fields,
        leases_never_end,
        running_calls_are_not_told,
        calls_that_end_early_stay_in_line,
        requests_that_are_sent_again_are_new,
        users_do_not_take_turns,
        failed_calls_keep_their_permits,
        minutes_begin_anew_with_changes,
        tokens_do_not_count,
    )
}
"""All of them, by name."""

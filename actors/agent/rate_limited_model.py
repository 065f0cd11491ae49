"""What stands before limited models in every process: a call goes through when the deployment's limits let it.

A model that no limits are given for is asked as if there were no gate. For a limited one there are two messages a call: one is
answered when the call may begin, and nobody waits for the other, which tells that it is over. A call whose failure may pass is
made again here, and by nobody else, so that the budget holds: see `once` below.

Should the actor that holds the limits be gone for good, calls go through unlimited, and the log says so.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, cast

from actors.errors import ActorLostError, ModelServiceError, RaygroveError
from actors.interfaces.model import Model, name_of
from actors.messages import protocol as p
from actors.messages.limits import ModelLimits
from actors.messages.model import LlmRequest, LlmResponse
from actors.messages.session import SessionKey
from actors.refs.limiter import LimiterRef
from actors.rules.capacity.rate_limiter import RENEW_S, RETRYABLE, FailedAttempt, limits_of

logger = logging.getLogger(__name__)


class LimiterClient:
    """One per process. All that it does happens on one event loop.

    Args:
        permits: the actor that holds the limits.
        limits: of models, by name or pattern.
        holder: a name of the process that no other one has; by default made up.
    """

    def __init__(self, permits: LimiterRef, limits: Mapping[str, ModelLimits], holder: str = "") -> None:
        self._permits = permits
        self._limits = limits
        self._holder = holder or uuid.uuid4().hex
        self._models: dict[str, bool] = {}
        # With the model of those that were granted.
        self._calls: dict[str, str | None] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def limited(self, model: Model, session: SessionKey) -> Model:
        """The model as it is to be asked for a session."""
        return RateLimitedModel(model, session, self)

    def is_limited(self, model: str) -> bool:
        """True for the name of a model that is not asked just like that."""
        if model not in self._models:
            self._models[model] = limits_of(model, self._limits) is not None
        return self._models[model]

    async def enter(self, model: str, session: SessionKey) -> str:
        """Wait until a call may begin. Returns what it is known by."""
        permit = uuid.uuid4().hex
        await self._ask(p.AcquirePermit(permit=permit, holder=self._holder, model=model, session=session))
        return permit

    async def enter_again(self, permit: str, model: str, session: SessionKey, trouble: FailedAttempt) -> bool:
        """Wait until a call may be made again that has failed; False: it may not, and is over."""
        return await self._ask(
            p.AcquirePermit(
                permit=permit,
                holder=self._holder,
                model=model,
                session=session,
                attempt=trouble.attempt,
                status=trouble.status,
                retry_after_s=trouble.retry_after_s,
            )
        )

    async def _ask(self, message: p.AcquirePermit) -> bool:
        self._calls[message.permit] = None
        self._renew_later()
        try:
            granted = await self._permits.acquire(message)
        except ActorLostError as error:
            logger.error("nobody limits model %r any more: %s", message.model, error)
            granted = not message.attempt
        except BaseException:
            # Above all cancellation: its place in the line is free, or its permit, if that is on its way.
            self.leave(message.permit)
            raise
        if granted:
            self._calls[message.permit] = message.model
        else:
            self._calls.pop(message.permit, None)
        return granted

    def leave(self, permit: str, tokens: int = 0, *, answered: bool = False) -> None:
        """A call is over. Nobody waits until that is known."""
        if permit in self._calls:
            del self._calls[permit]
            self._do(self._permits.release(p.ReleasePermit(permit=permit, tokens=tokens, answered=answered)))

    def _renew_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RENEW_S, self._renew)

    def _renew(self) -> None:
        self._timer = None
        if self._calls:
            held = {permit: model for permit, model in self._calls.items() if model is not None}
            self._do(self._permits.renew(p.RenewPermits(holder=self._holder, held=held)))
            self._renew_later()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._told(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _told(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except RaygroveError as error:
            # Its lease ends by itself.
            logger.warning("the end of a model call could not be told: %s", error)

    async def close(self) -> None:
        """Nothing is asked any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._work:
            await asyncio.wait(self._work)


class RateLimitedModel:
    """A model whose calls wait for permits, and are repeated within the limiter's budget."""

    def __init__(self, model: Model, session: SessionKey, gate: LimiterClient) -> None:
        self._model = model
        self._session = session
        self._gate = gate

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        """Ask, when that is allowed."""
        name = request.model or name_of(self._model)
        if not self._gate.is_limited(name):
            async with _responses(self._model, request, stream) as responses:
                async for response in responses:
                    yield response
            return
        permit = await self._gate.enter(name, self._session)
        asked = _once(self._model)
        tokens, answered, attempt = 0, False, 0
        try:
            while not answered:
                has_begun = False
                try:
                    async with _responses(asked, request, stream) as responses:
                        async for response in responses:
                            has_begun = True
                            tokens = max(tokens, _used(response))
                            yield response
                    answered = True
                except Exception as error:
                    # Somebody else's client: what its errors mean is told by what they are, or have.
                    attempt += 1
                    trouble = _trouble(error, attempt)
                    if has_begun or trouble is None:
                        raise
                    if not await self._gate.enter_again(permit, name, self._session, trouble):
                        raise
        finally:
            self._gate.leave(permit, tokens, answered=answered)


def _responses(model: Model, request: LlmRequest, stream: bool) -> aclosing[Any]:
    return aclosing(cast("AsyncGenerator[LlmResponse, None]", model.generate(request, stream=stream)))


def _once(model: Model) -> Model:
    """The model, as it is when it makes no call again by itself."""
    once = getattr(model, "once", None)
    return once() if callable(once) else model


def _used(response: LlmResponse) -> int:
    usage = getattr(response, "usage", None)
    return getattr(usage, "total_token_count", None) or 0


def _trouble(error: Exception, attempt: int) -> FailedAttempt | None:
    """What has happened, if it may pass."""
    if isinstance(error, ModelServiceError):
        passes = error.code is None or error.code in RETRYABLE
        return FailedAttempt(attempt=attempt, status=error.code, retry_after_s=error.retry_after_s) if passes else None
    if isinstance(error, ConnectionError | TimeoutError):
        return FailedAttempt(attempt=attempt)
    # The name that most clients have for it.
    status = getattr(error, "status_code", None)
    return FailedAttempt(attempt=attempt, status=status) if status in RETRYABLE else None

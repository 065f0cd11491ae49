"""Limited models in an agent's process: a call begins when the deployment's rate limiter grants it a permit.

A model without limits is called directly. A call of a limited one costs two messages: the reply to the first says when it may
begin, and nothing waits for the second, which says that it is over. Failed calls are repeated here and nowhere else, within the
limiter's budget: see `_without_retries`.

If the limiter's actor is gone for good, calls go through unlimited, and the log says so.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import ClassVar

from actors.behaviours.interceptor import CallModel, RunInterceptor
from actors.errors import ActorLostError, RaygroveError
from actors.interfaces.model import Model, Responses, name_of
from actors.layers.limiter.limits import ModelLimits, limits_of
from actors.layers.limiter.messages import AcquirePermit, ReleasePermit, RenewPermits
from actors.layers.limiter.rate_limiter import RENEW_S, FailedAttempt, failed_attempt
from actors.messages.llm import LlmRequest, LlmResponse
from actors.messages.session import SessionKey
from actors.refs import Ref

logger = logging.getLogger(__name__)


class LimiterClient:
    """Acquires, renews and releases the permits of one process. It belongs to one event loop.

    Args:
        ref: the client of the limiter's actor.
        limits: of models, by name or pattern.
        holder: a name of the process that no other one has; by default a random one.
    """

    def __init__(self, ref: Ref, limits: Mapping[str, ModelLimits], holder: str = "") -> None:
        self._ref = ref
        self._limits = limits
        self._holder = holder or uuid.uuid4().hex
        self._is_limited: dict[str, bool] = {}
        # Permits that were asked for, with their model once they are granted.
        self._permits: dict[str, str | None] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._renewal: asyncio.TimerHandle | None = None

    def limited(self, model: Model, session: SessionKey) -> RateLimitedModel:
        """Return a model for one run, whose calls for a session wait for permits."""
        return RateLimitedModel(model, session, self)

    def is_limited(self, model: str) -> bool:
        """True for the name of a model that has limits."""
        if model not in self._is_limited:
            self._is_limited[model] = limits_of(model, self._limits) is not None
        return self._is_limited[model]

    async def acquire(self, model: str, session: SessionKey) -> str:
        """Wait until a call may begin. Returns its permit, to be released."""
        permit = uuid.uuid4().hex
        await self._acquire(AcquirePermit(permit=permit, holder=self._holder, model=model, session=session))
        return permit

    async def acquire_retry(self, permit: str, model: str, session: SessionKey, failed: FailedAttempt) -> bool:
        """Wait until a failed call may be repeated; False if it may not, and its permit is released."""
        return await self._acquire(
            AcquirePermit(
                permit=permit,
                holder=self._holder,
                model=model,
                session=session,
                attempt=failed.attempt,
                status=failed.status,
                retry_after_s=failed.retry_after_s,
            )
        )

    async def _acquire(self, message: AcquirePermit) -> bool:
        self._permits[message.permit] = None
        self._renew_later()
        try:
            reply = await self._ref.ask(message)
            while reply.again:
                reply = await self._ref.ask(message)
            is_granted = reply.granted
        except ActorLostError as error:
            logger.error("nobody limits model %r any more: %s", message.model, error)
            is_granted = not message.attempt
        except BaseException:
            # Above all cancellation: its place in the queue is free, or its permit, if that is on its way.
            self.release(message.permit)
            raise
        if is_granted:
            self._permits[message.permit] = message.model
        else:
            self._permits.pop(message.permit, None)
        return is_granted

    def release(self, permit: str, tokens: int = 0, *, answered: bool = False) -> None:
        """Give a permit back, without waiting for it.

        Args:
            tokens: what the call has used.
            answered: the service has responded.
        """
        if permit in self._permits:
            del self._permits[permit]
            self._send(ReleasePermit(permit=permit, tokens=tokens, answered=answered))

    def _renew_later(self) -> None:
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().call_later(RENEW_S, self._renew)

    def _renew(self) -> None:
        self._renewal = None
        if self._permits:
            held = {permit: model for permit, model in self._permits.items() if model is not None}
            self._send(RenewPermits(holder=self._holder, held=held))
            self._renew_later()

    def _send(self, message: ReleasePermit | RenewPermits) -> None:
        task = asyncio.create_task(self._sent(message))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _sent(self, message: ReleasePermit | RenewPermits) -> None:
        try:
            await self._ref.ask(message)
        except RaygroveError as error:
            # The limiter takes the permit back by itself when its lease ends.
            logger.warning("the end of a model call could not be told: %s", error)

    async def close(self) -> None:
        """Stop renewing, and wait until what was released is sent."""
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        if self._sending:
            await asyncio.wait(self._sending)


class RateLimitedModel:
    """Implements `Model` for one run: calls wait for permits, and are repeated within the limiter's budget."""

    notes_attempts = True

    def __init__(self, model: Model, session: SessionKey, limiter: LimiterClient) -> None:
        self._model = model
        self._session = session
        self._limiter = limiter
        self._permits: set[str] = set()
        self._repeats = True

    def limited(self, model: Model, repeats: bool = True) -> RateLimitedModel:
        """Another model of the same run, whose failed calls may be repeated or not."""
        limited = RateLimitedModel(model, self._session, self._limiter)
        limited._repeats = repeats
        limited._permits = self._permits
        return limited

    def give_back(self) -> None:
        """Release the permits of calls that do not end although their run has ended: nothing waits for their answers."""
        while self._permits:
            self._limiter.release(self._permits.pop())

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        """Call the model when the limiter allows it: see Model."""
        through: Callable[[Callable[[Model, bool], Model]], Model] | None = getattr(self._model, "through", None)
        if through is not None:
            # Each of the models that it passes calls on to has limits of its own.
            async with Responses(through(self.limited), request, stream=stream) as responses:
                async for response in responses:
                    yield response
            return
        name = request.model or name_of(self._model)
        if not self._limiter.is_limited(name):
            async with Responses(self._model, request, stream=stream) as responses:
                async for response in responses:
                    yield response
            return
        permit = await self._limiter.acquire(name, self._session)
        self._permits.add(permit)
        model = _without_retries(self._model)
        tokens, answered, attempt = 0, False, 0
        try:
            while not answered:
                has_begun = False
                try:
                    async with Responses(model, request, stream=stream) as responses:
                        async for response in responses:
                            has_begun = True
                            tokens = max(tokens, _tokens_of(response))
                            yield response
                    answered = True
                except Exception as error:
                    # The model's client may be any: what its errors mean follows from their types and attributes.
                    attempt += 1
                    failed = failed_attempt(error, attempt)
                    if has_begun or failed is None or not self._repeats or permit not in self._permits:
                        raise
                    if not await self._limiter.acquire_retry(permit, name, self._session, failed):
                        raise
        finally:
            self._permits.discard(permit)
            self._limiter.release(permit, tokens, answered=answered)


def _without_retries(model: Model) -> Model:
    """The model without its own retries, so that the limiter's budget bounds them: see Model.once."""
    once = getattr(model, "once", None)
    return once() if callable(once) else model


def _tokens_of(response: LlmResponse) -> int:
    usage = getattr(response, "usage", None)
    return getattr(usage, "total_token_count", None) or 0


class Permits(RunInterceptor):
    """Calls limited models when the limiter allows it."""

    limiter: ClassVar[LimiterClient]
    _limited: RateLimitedModel | None = None

    def call_model(self, call: CallModel) -> Awaitable[LlmResponse]:
        """Make the call with a model that waits for a permit."""
        known, session = self._limited, self.run.message.turn.key
        call.model = self._limited = known.limited(call.model) if known else self.limiter.limited(call.model, session)
        return self.next.call_model(call)

    def abandon(self) -> None:
        """Release the permits of calls that do not end."""
        if self._limited is not None:
            self._limited.give_back()
        self.next.abandon()


def permits_of(client: LimiterClient) -> type[Permits]:
    """Permits of the limiter to which a client leads."""

    class PermitsOfProcess(Permits):
        limiter = client

    return PermitsOfProcess

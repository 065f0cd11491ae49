"""Permits around the model calls of a run."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar

from actors.behaviours.interceptor import CallModel, RunInterceptor
from actors.layers.limiter.client import LimiterClient, RateLimitedModel
from actors.messages.llm.model import LlmResponse


class Permits(RunInterceptor):
    """Calls limited models when the limiter allows it.

    Attributes:
        limiter: of the process.
    """

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

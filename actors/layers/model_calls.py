"""What is around every model call: it is counted, repeated when its answer is empty, and counted again when it fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from functools import partial

import msgspec

from actors.behaviours.interceptor import CallLeftOutError, CallModel, RunInterceptor
from actors.behaviours.model_call import emit_cost
from actors.errors import LlmCallsLimitExceededError
from actors.messages.event import new_event_id
from actors.messages.llm import LlmResponse
from actors.messages.protocol.log import Append, Appended, FailedCall
from actors.messages.protocol.runs import TakeLlmCall
from actors.rules.checks import model_answer

logger = logging.getLogger(__name__)


class FailedCalls(RunInterceptor):
    """Has failed model calls counted, with the next event."""

    _failed: Sequence[FailedCall] = ()

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Note the call if its model fails."""
        try:
            return await self.next.call_model(call)
        except BaseException as error:
            if error is call.error:
                model = call.request.model or call.name
                self._failed = (*self._failed, FailedCall(self.run.spec.name, model, type(error).__name__, call.duration_s))
            raise

    def append(self, append: Append) -> Awaitable[Appended]:
        """Add the failed calls to what is stored."""
        if self._failed:
            append, self._failed = msgspec.structs.replace(append, failed_calls=self._failed), ()
        return self.next.append(append)


class EmptyAnswers(RunInterceptor):
    """Repeats calls without an answer, if limits and budgets have room, and gives the last one an error code."""

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Make the call, and repeat it while its response says nothing."""
        model = call.model
        response = await self.next.call_model(call)
        for _ in range(self.run.spec.limits.empty_answer_retries):
            # Of a node an empty answer is an answer, which goes to the nodes after it.
            is_answer = response.error_code is None and bool(self.run.context.node_path)
            if is_answer or not may_pass(response):
                break
            first = msgspec.structs.replace(call)
            call.event_id, call.model, call.is_optional = new_event_id(), model, True
            call.before = partial(self._store, first, response)
            call.model_version = None
            try:
                response = await self.next.call_model(call)
            except (LlmCallsLimitExceededError, CallLeftOutError):
                call.event_id, call.model_version = first.event_id, first.model_version
                break
        return with_reason(response)

    async def _store(self, call: CallModel, response: LlmResponse) -> None:
        why = response.error_code or model_answer.NO_CONTENT
        logger.warning("model %r gave no answer (%s), and is asked again", call.model_version, why)
        await emit_cost(self.run.context, call)


class CallLimit(RunInterceptor):
    """Counts calls out of the allowance that came with the run, and may ask the Runner for further ones."""

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Count the call, and make it. Raises LlmCallsLimitExceededError."""
        run, message = self.run, self.run.message
        run.counts["llm_calls"] += 1
        if run.llm_calls < message.llm_calls:
            run.llm_calls += 1
        elif message.asks_for_more:
            await run.runner.ask(TakeLlmCall(turn=message.turn, agent=message.agent))
        else:
            raise LlmCallsLimitExceededError(message.agent, message.config.max_llm_calls)
        return await self.next.call_model(call)


_PASSING = (None, "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
"""The codes of responses without an answer that a second call may do without."""


def may_pass(response: LlmResponse) -> bool:
    """True for a response that says nothing, where the same request may get an answer."""
    return not _has_answer(response) and response.error_code in _PASSING


def with_reason(response: LlmResponse) -> LlmResponse:
    """The response with an error code, if it says nothing."""
    if response.error_code is not None or _has_answer(response):
        return response
    return msgspec.structs.replace(response, error_code=model_answer.NO_CONTENT, error_message="the model returned no content")


def _has_answer(response: LlmResponse) -> bool:
    return response.content is not None and any(not part.thought for part in response.content.parts)

"""Summarises the conversation before an agent's model is called, if that is due (semantics.md 5.8)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Sequence

import msgspec

from actors.behaviours.failure_log import log_failure
from actors.behaviours.llm.budgeted_model import AllowedCall, BudgetedModel
from actors.behaviours.llm.recording import CallRecorder
from actors.definitions.tree.compaction import EventsCompactionConfig, LlmEventSummarizer, SummaryFunction
from actors.definitions.tree.spec import AgentSpec
from actors.errors.tracebacks import whole_traceback
from actors.errors.user_code import in_thread, is_cancellation
from actors.interfaces.context import Context
from actors.interfaces.model import Model
from actors.messages.content import Content
from actors.messages.event import Event, EventActions, EventCompaction, new_event_id
from actors.messages.llm.model import LlmRequest, LlmResponse
from actors.messages.protocol.log import DoWithout
from actors.rules.checks import model_answer
from actors.rules.compaction.sizes import estimated_tokens
from actors.rules.compaction.triggers import Trigger
from actors.rules.compaction.window import CompactionWindow, window

logger = logging.getLogger(__name__)


class Compactor:
    """Summarises for one run.

    A summary is an event of the run. It is stored before the model is called, so a run that was lost finds it in the log. One
    that fails costs no turn: requests show the whole conversation, and the run does not try again.

    Args:
        spec: the agent.
        config: when, and what.
        model: writes the summaries.
        context: the run.
    """

    def __init__(self, spec: AgentSpec, config: EventsCompactionConfig, model: Model, context: Context) -> None:
        self._spec = spec
        self._config = config
        self._model = BudgetedModel(spec, model, context)
        self._context = context
        self._recorder = CallRecorder(spec, context)
        # Of turns that have ended nothing changes while the run goes on.
        self._settled: set[Trigger] = set()

    async def before_call(self) -> None:
        """Summarise what is due.

        Raises:
            LlmCallsLimitExceededError, NoPriceError: the turn has no model call left.
            FencedError: the turn was taken over or has ended.
        """
        for trigger in await self._triggers():
            if trigger in self._settled:
                continue
            found = window(self._config.rule, trigger, await self._context.log.read(), self._context.invocation_id)
            if found is None:
                if trigger != Trigger.RUNNING_BY_TOKENS:
                    self._settled.add(trigger)
                continue
            event = await self._summary(found)
            if event is None:
                self._settled.update(Trigger)
                return
            await self._context.emit(event)
            if trigger == Trigger.RUNNING_BY_TOKENS:
                return
            # As after the end of a turn: one summary, and then the turn that runs.
            self._settled.update((Trigger.ENDED_BY_TOKENS, Trigger.ENDED_BY_NUMBER))
            await self.before_call()
            return

    async def _triggers(self) -> list[Trigger]:
        view = await self._context.view()
        if view.ledger is None or len(self._settled) == len(Trigger):
            return []
        rule, context = self._config.rule, self._context
        return list(view.ledger.triggers(rule, context.invocation_id, self._spec.name, lambda: estimated_tokens(view.contents())))

    async def _summary(self, found: CompactionWindow) -> Event | None:
        """The event of a summary; None if there is none."""
        event_id, name = new_event_id(), self._model.name
        summarizer = self._config.summarizer
        allowed: AllowedCall | None = None
        if isinstance(summarizer, LlmEventSummarizer):
            request = LlmRequest(model=name, agent=self._spec.name)
            request.contents = [Content.of_text(summarizer.prompt(found.events))]
            # Outside of what follows: a turn that may make no more calls fails.
            reply = await self._model.allowed_if_room(request)
            if isinstance(reply, DoWithout):
                logger.info("agent %r: the budget of %s has no room for a summary", self._spec.name, reply.whose)
                return None
            allowed, name = reply, reply.request.model
        began_s = asyncio.get_running_loop().time()
        try:
            if allowed is not None:
                response = await self._answer(allowed, event_id)
            else:
                assert summarizer is not None
                assert not isinstance(summarizer, LlmEventSummarizer)
                response = LlmResponse(content=await _written(summarizer, found.events))
        except BaseException as error:  # The model, or the function, is foreign code.
            if is_cancellation(error):
                raise
            log_failure(logger, logging.WARNING, "the summary of a conversation", self._context, error, whole_traceback(error))
            return None
        event = Event(
            id=event_id,
            usage=response.usage,
            model_version=(response.model_version or name) if response.usage is not None or allowed is not None else None,
            duration_s=(asyncio.get_running_loop().time() - began_s) or None,
        )
        if response.content is None or response.content.is_empty():
            logger.warning("agent %r: the conversation was not summarised: there is no summary", self._spec.name)
            if allowed is not None:
                # What was paid for is in the log, also where it was nothing.
                await self._context.emit(event)
            return None
        return msgspec.structs.replace(event, actions=EventActions(compaction=_compaction(found, response.content)))

    async def _answer(self, allowed: AllowedCall, event_id: str) -> LlmResponse:
        """Ask the model, like any other call."""
        name, request = allowed.request.model, allowed.request
        answer = model_answer.ModelAnswer(name)
        told = self._context.telemetry.model_call(request, name, stream=False)
        with self._recorder.call(request, event_id) as recorded, told as call:
            async with allowed.responses(stream=False) as responses:
                async for response in responses:
                    if not getattr(response, "partial", False):
                        answer.add_complete(response)
            whole = model_answer.checked_response(answer.complete(), name, logger.warning)
            call.answered(whole)
            recorded.usage = whole.usage
        return whole


def _compaction(found: CompactionWindow, summary: Content) -> EventCompaction:
    return EventCompaction(
        start_seq=found.start_seq,
        end_seq=found.end_seq,
        start_timestamp=found.events[0].timestamp,
        end_timestamp=found.events[-1].timestamp,
        compacted_content=msgspec.structs.replace(summary, role="model"),
    )


async def _written(function: SummaryFunction, events: Sequence[Event]) -> Content | None:
    """The summary that a user's function writes. Raises what it raises, and TypeError for a result of another kind."""
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
    given = function(events) if is_async else await in_thread(function, events)
    given = await given if inspect.isawaitable(given) else given
    if given is None or isinstance(given, Content):
        return given
    if not isinstance(given, str):
        raise TypeError(f"a summarizer must return a text, a Content or None, not {type(given).__name__}")
    return Content.of_text(given, role="model") if given else None

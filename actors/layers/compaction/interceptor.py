"""Summarises the conversation before an agent's model is called, if that is due (semantics.md 5.8)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Sequence
from functools import partial
from typing import Self

import msgspec

from actors.behaviours.interceptor import CallLeftOutError, CallModel, RunInterceptor, RunParts, TakeStep
from actors.behaviours.lifecycle import callback_context, log_failure
from actors.definitions.spec import AgentSpec
from actors.definitions.tools.context import Actions
from actors.errors.tracebacks import whole_traceback
from actors.errors.user_code import in_thread, is_cancellation
from actors.interfaces.model import name_of
from actors.layers.compaction.definitions import EventsCompactionConfig, LlmEventSummarizer, SummaryFunction
from actors.layers.compaction.rules import CompactionLedger, CompactionWindow, Trigger, estimated_tokens, window
from actors.messages.content import Content
from actors.messages.event import Event, EventActions, EventCompaction, new_event_id
from actors.messages.llm import LlmRequest
from actors.messages.protocol.runs import AnyOutcome
from actors.messages.topology import LLM
from actors.rules.routing.branches import tool_root

logger = logging.getLogger(__name__)


class Compaction(RunInterceptor):
    """Summarises for one run of an agent in the conversation. Its calls of a model go through the interceptors after it.

    A summary is an event of the run. It is stored before the model is called, so a run that was lost finds it in the log. One
    that fails costs no turn: requests show the whole conversation, and the run does not try again.
    """

    ledger = CompactionLedger

    def __init__(self, run: RunParts) -> None:
        super().__init__(run)
        self._spec = run.spec
        self._config = run.spec.setting(EventsCompactionConfig) or EventsCompactionConfig()
        self._context = run.context
        # Of turns that have ended nothing changes while the run goes on.
        self._settled: set[Trigger] = set()

    @classmethod
    def concerns(cls, spec: AgentSpec) -> bool:
        """For an agent whose app asks for summaries."""
        return spec.kind == LLM and spec.setting(EventsCompactionConfig) is not None

    @classmethod
    def of(cls, run: RunParts) -> Self | None:
        """For a run in the conversation."""
        message = run.message
        return cls(run) if message.work is None and message.node is None and tool_root(message.branch) is None else None

    async def take_step(self, step: TakeStep) -> AnyOutcome | None:
        """Summarise what is due before the step.

        Raises:
            LlmCallsLimitExceededError, NoPriceError: the turn has no model call left.
            FencedError: the turn was taken over or has ended.
        """
        await self._summarise()
        return await self.next.take_step(step)

    async def _summarise(self) -> None:
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
            await self._summarise()
            return

    async def _triggers(self) -> list[Trigger]:
        view = await self._context.view()
        if not isinstance(view.ledger, CompactionLedger) or len(self._settled) == len(Trigger):
            return []
        rule, context = self._config.rule, self._context
        return list(view.ledger.triggers(rule, context.invocation_id, self._spec.name, lambda: estimated_tokens(view.contents())))

    async def _summary(self, found: CompactionWindow) -> Event | None:
        """The event of a summary; None if there is none."""
        summarizer = self._config.summarizer
        event = Event(id=new_event_id())
        if isinstance(summarizer, LlmEventSummarizer):
            call = self._call(summarizer.prompt(found.events), event.id)
            try:
                content = (await self.next.call_model(call)).content
            except CallLeftOutError as error:
                logger.info("agent %r: %s has no room for a summary", self._spec.name, error.reason)
                return None
            except BaseException as error:  # A model is foreign code. A turn that may make no more calls fails.
                if error is not call.error:
                    raise
                self._log(error)
                return None
            event = msgspec.structs.replace(
                event, usage=call.usage, model_version=call.model_version, duration_s=call.duration_s or None
            )
        else:
            assert summarizer is not None
            began_s = asyncio.get_running_loop().time()
            try:
                content = await _written(summarizer, found.events)
            except BaseException as error:  # The function is foreign code.
                if is_cancellation(error):
                    raise
                self._log(error)
                return None
            event = msgspec.structs.replace(event, duration_s=(asyncio.get_running_loop().time() - began_s) or None)
        if content is None or content.is_empty():
            logger.warning("agent %r: the conversation was not summarised: there is no summary", self._spec.name)
            if event.model_version is not None:
                # What was paid for is in the log, also where it was nothing.
                await self._context.emit(event)
            return None
        return msgspec.structs.replace(event, actions=EventActions(compaction=_compaction(found, content)))

    def _call(self, prompt: str, event_id: str) -> CallModel:
        model = self.run.resolve(self._spec.name, self._config.model or self._spec.model)
        name = name_of(model)
        return CallModel(
            model=model,
            name=name,
            request=LlmRequest(model=name, agent=self._spec.name, contents=[Content.of_text(prompt)]),
            event_id=event_id,
            context=partial(callback_context, self._context, Actions()),
            is_optional=True,
        )

    def _log(self, error: BaseException) -> None:
        log_failure(logger, logging.WARNING, "the summary of a conversation", self._context, error, whole_traceback(error))


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

"""The end of the chain of interceptors: the calls themselves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from actors.behaviours.interceptor import CallModel, CallTool, RunInterceptor, RunTools, TakeStep
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext
from actors.errors.user_code import is_cancellation
from actors.interfaces.model import Responses
from actors.messages.event import Event
from actors.messages.llm.model import LlmRequest, LlmResponse
from actors.messages.protocol.log import Append, Appended
from actors.messages.protocol.outcomes import AnyOutcome
from actors.rules.checks import model_answer

logger = logging.getLogger(__name__)


class PlainCalls(RunInterceptor):
    """The last interceptor of a run: it makes the calls."""

    def tools(self) -> Sequence[Tool]:
        """No further tools."""
        return ()

    def take_step(self, step: TakeStep) -> Awaitable[AnyOutcome | None]:
        """Take the step."""
        return step.perform()

    async def prepare_request(self, request: LlmRequest, context: CallbackContext) -> LlmResponse | None:
        """Leave the request as it is."""
        return None

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Ask the model, show the pieces of its response, and return the whole one."""
        if call.before is not None:
            await call.before()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        answer = model_answer.ModelAnswer(call.name)
        not_shown: BaseException | None = None
        try:
            async with Responses(call.model, call.request, stream=call.streams) as responses:
                async for response in responses:
                    if not getattr(response, "partial", False):
                        answer.add_complete(response)
                    elif call.show is not None:
                        piece = answer.add_partial(response.content, self.run.spec.limits.max_inline_bytes)
                        try:
                            await call.show(piece)
                        except BaseException as error:
                            not_shown = error
                            raise
            whole = model_answer.checked_response(answer.complete(), call.name, logger.warning)
        except BaseException as error:  # A model is foreign code, which may raise anything.
            if error is not not_shown and not is_cancellation(error):
                call.error = error
            raise
        finally:
            call.duration_s = loop.time() - began_s
        call.model_version, call.usage = whole.model_version or call.request.model or call.name, whole.usage
        return whole

    def run_tools(self, tools: RunTools) -> Awaitable[AnyOutcome | None]:
        """Run the tools."""
        return tools.perform(tools)

    def call_tool(self, call: CallTool) -> Awaitable[object]:
        """Run the tool."""
        return call.perform(call)

    async def change_event(self, event: Event) -> Event:
        """Return the event."""
        return event

    def append(self, append: Append) -> Awaitable[Appended]:
        """Store the events."""
        return self.run.session.append(append)

    async def end_run(self) -> None:
        """Nothing is left to do."""

    def abandon(self) -> None:
        """It holds nothing."""

"""Reports model calls and tool calls to telemetry."""

from __future__ import annotations

from typing import Self

from actors.behaviours.interceptor import CallModel, CallTool, RunInterceptor, RunParts
from actors.interfaces.telemetry import NO_RUN_TELEMETRY
from actors.messages.content import Content
from actors.messages.llm.model import LlmResponse
from actors.messages.protocol.outcomes import Paused


class Tracing(RunInterceptor):
    """Makes a span of each call."""

    @classmethod
    def of(cls, run: RunParts) -> Self | None:
        """For a process with telemetry."""
        return cls(run) if run.context.telemetry is not NO_RUN_TELEMETRY else None

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Report a model call, and when its pieces come."""
        show = call.show
        with self.run.context.telemetry.model_call(call.request, call.name, stream=call.streams) as span:

            async def report(piece: Content | None) -> None:
                span.chunk()
                if show is not None:
                    await show(piece)

            call.show = report if show is not None else None
            try:
                response = await self.next.call_model(call)
            finally:
                call.show = show
            span.chunk()
            span.answered(response)
        return response

    async def call_tool(self, call: CallTool) -> object:
        """Report a call of a tool. What the tool has raised is an error of the span, also if a callback has a result instead."""
        failure: BaseException | None = None
        with self.run.context.telemetry.tool_call(call.call, call.tool.description) as span:
            try:
                result = await self.next.call_tool(call)
            except BaseException as error:
                if error is not call.error:
                    raise
                failure = error
            if call.error is not None:
                span.failed(call.error)
            if failure is None and not isinstance(result, Paused):
                span.answered(result)
        if failure is not None:
            raise failure
        return result

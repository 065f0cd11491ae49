"""Calls of tools are cancelled when a message comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Self

from actors.behaviours.interceptor import CallTool, RunInterceptor, RunParts, TakeStep
from actors.definitions.agents.llm import LlmAgent
from actors.definitions.spec import AgentSpec
from actors.messages.protocol.runs import AnyOutcome


class InterruptsTools(RunInterceptor):
    """Cancels the calls of one step when the user, or another agent, says something meanwhile.

    Messages about background runs are read with their results.
    """

    _reading: asyncio.Task[str] | None = None

    def __init__(self, run: RunParts, which: bool | Sequence[str]) -> None:
        super().__init__(run)
        self._which = which

    @classmethod
    def concerns(cls, spec: AgentSpec) -> bool:
        """For LLM agents with `interrupt_tools`."""
        return isinstance(spec.definition, LlmAgent) and bool(spec.definition.interrupt_tools)

    @classmethod
    def of(cls, run: RunParts) -> Self | None:
        """For each run."""
        assert isinstance(run.spec.definition, LlmAgent)
        return cls(run, run.spec.definition.interrupt_tools)

    async def take_step(self, step: TakeStep) -> AnyOutcome | None:
        """Listen as long as the step takes."""
        try:
            return await self.next.take_step(step)
        finally:
            if self._reading is not None:
                self._reading.cancel()
                self._reading = None

    def call_tool(self, call: CallTool) -> Awaitable[object]:
        """Call the tool until a message comes."""
        if self._which is True or (self._which and call.tool.name in self._which):
            return self._until_message(call)
        return self.next.call_tool(call)

    async def _until_message(self, call: CallTool) -> object:
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._said())
        calling = asyncio.ensure_future(self.next.call_tool(call))
        try:
            await asyncio.wait((calling, self._reading), return_when=asyncio.FIRST_COMPLETED)
            if calling.done() or self._reading.exception() is not None:
                return await calling
            return {"error": f"interrupted by a message: {self._reading.result()}"}
        finally:
            if not calling.done():
                calling.cancel()
                await asyncio.wait([calling])

    async def _said(self) -> str:
        """Wait until something is said, and return its texts."""
        while True:
            read = await self.run.context.inbox.wait()
            if said := [message.text for message in read if not message.run]:
                return "\n".join(said)

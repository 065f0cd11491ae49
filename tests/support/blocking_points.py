"""Points at which turns block, one for each phase of a turn. A test waits until they are reached, and releases them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

from actors import (
    BaseAgent,
    Content,
    FunctionTool,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
)
from actors.testing import PatternModel
from tests.support.agents.conversation_tools import forever


class BlockingPoints:
    """Tools that block, in this process."""

    def __init__(self) -> None:
        self._reached = threading.Semaphore(0)
        self._let = threading.Event()

    def wait_until_reached(self, times: int = 1) -> None:
        """Wait until so many calls block."""
        for _ in range(times):
            assert self._reached.acquire(timeout=60)

    def release(self) -> None:
        """Release the calls of `block` and `refuse`; those of `hang` end only by cancellation."""
        self._let.set()

    async def hang(self) -> None:
        """Never return."""
        self._reached.release()
        await asyncio.Event().wait()

    def block(self) -> str:
        """Block the thread until it is released."""
        self._reached.release()
        self._let.wait(60)
        return "late"

    async def refuse(self) -> str:
        """Ignore cancellation, and return when it is released."""
        self._reached.release()
        while not self._let.is_set():
            try:
                await asyncio.to_thread(self._let.wait, 60)
            except asyncio.CancelledError:
                continue
        return "late"

    def ask(self) -> None:
        """Ask the user."""
        self._reached.release()

    def tools(self) -> list[FunctionTool]:
        return [
            FunctionTool(self.hang),
            FunctionTool(self.block),
            FunctionTool(self.refuse),
            LongRunningFunctionTool(self.ask),
            forever,
        ]


class HangingModel:
    """A model that yields one partial response when streaming, and then hangs."""

    def __init__(self, points: BlockingPoints) -> None:
        self._points = points

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        if stream:
            yield LlmResponse(content=Content.of_text("well", role="model"), partial=True)
        await self._points.hang()


def blocking_tree(points: BlockingPoints) -> BaseAgent:
    """A root that answers, blocks in a tool, or transfers to an agent that blocks elsewhere, as the message says."""
    tools = ("hang", "block", "refuse", "ask")
    says = PatternModel(
        [
            *((f"^{name}$", {"call": name}) for name in tools),
            ("^all$", {"parts": [{"call": name} for name in ("hang", "block", "ask")]}),
            *((f"^{name}$", {"transfer": name}) for name in ("model", "parallel", "loop")),
        ],
        default="hello",
    )
    hangs = HangingModel(points)
    calls = PatternModel([], default={"parts": ["I look", {"call": "hang"}]})
    return LlmAgent(
        name="root",
        model=says,
        tools=points.tools(),
        sub_agents=[
            LlmAgent(name="model", model=hangs),
            ParallelAgent(
                name="parallel",
                sub_agents=[
                    LlmAgent(name="left", model=hangs),
                    LlmAgent(name="right", model=calls, tools=points.tools()),
                    LlmAgent(name="done", model=PatternModel([], default="I am done")),
                ],
            ),
            LoopAgent(
                name="loop",
                sub_agents=[
                    LlmAgent(name="first", model=PatternModel([], default="once more")),
                    LlmAgent(name="second", model=calls, tools=points.tools()),
                ],
            ),
        ],
    )

"""Code of users that fails in every place where it can, and says so in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from actors import (
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    ParallelAgent,
    Plugin,
    SequentialAgent,
    Supervision,
    tool,
)
from actors.testing import PatternModel

logger = logging.getLogger("shop.code")

SECRET = "sk-0815"


def open_account(number: int, key: str) -> int:
    """Fail, in a function that other code calls with a secret."""
    password = key * 2
    if password:
        raise LookupError(f"no account {number}")
    return number


@tool
def thread_tool(key: str) -> int:
    """Fail in a thread."""
    return open_account(1, key)


@tool
async def loop_tool(key: str) -> int:
    """Fail on the event loop."""
    await asyncio.sleep(0)
    return open_account(2, key)


@tool(num_cpus=0.01)
def task_tool(key: str) -> int:
    """Fail in a task."""
    return open_account(3, key)


class BrokenModel:
    """A model whose client fails."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        open_account(4, SECRET)
        yield LlmResponse()


def callback(context: CallbackContext) -> None:
    """Fail before an agent."""
    open_account(5, SECRET)


class Custom(CustomAgent):
    """Fails in a thread of its own."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text("so far so good", role="model"))
        try:
            await asyncio.to_thread(open_account, 6, SECRET)
        except LookupError as error:
            raise RuntimeError("the bank is closed") from error


class OnMessage(Plugin):
    """Fails on some messages, before their turns are open."""

    async def on_user_message_callback(self, context: CallbackContext, content: Content) -> Any:
        if "plugin" in content.text:
            open_account(7, SECRET)
        return None


def failing_tree() -> LlmAgent:
    """A desk that hands each message to the agent that it names, which fails; or calls the tool that it names."""
    names = ("model", "callback", "custom", "supervised", "parallel")
    tools = [thread_tool, loop_tool, task_tool]
    model = PatternModel(
        [
            *((name, {"transfer": name}) for name in names),
            *((each.name, {"call": each.name, "args": {"key": SECRET}}) for each in tools),
        ],
        default="hello",
    )
    again = Supervision(strategy="restart", max_restarts=1, backoff_s=0.0)
    return LlmAgent(
        name="desk",
        model=model,
        tools=tools,
        sub_agents=[
            LlmAgent(name="model", model=BrokenModel()),
            LlmAgent(name="callback", model=model, before_agent_callback=callback),
            Custom(name="custom"),
            SequentialAgent(name="supervised", supervision=again, sub_agents=[Custom(name="worker")]),
            ParallelAgent(name="parallel", sub_agents=[Custom(name="left"), LlmAgent(name="right", model=model)]),
        ],
    )

"""Tools of the conversations in tests; some block until the test releases them."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from actors import (
    CallbackContext,
    Content,
    CredentialRequest,
    FunctionTool,
    LlmRequest,
    Part,
    ReadonlyContext,
    Tool,
    ToolContext,
    Toolset,
    tool,
)
from actors.messages.llm import FunctionDeclaration


@tool
def look_up(order: str, tool_context: ToolContext) -> dict[str, str]:
    """Look an order up."""
    tool_context.state["seen"] = (tool_context.state.get("seen") or 0) + 1
    return {"order": order, "status": "late"}


@tool
def put(key: str, value: Any, tool_context: ToolContext) -> str:
    """Write state."""
    tool_context.state[key] = value
    return "ok"


@tool
def add(item: str, tool_context: ToolContext) -> list[str]:
    """Put an item into the cart."""
    tool_context.state["cart"] = [*tool_context.state.get("cart", []), item]
    tool_context.state.setdefault("log", []).append(item)
    return list(tool_context.state["cart"])


@tool
async def add_later(item: str, tool_context: ToolContext) -> list[str]:
    """Put an item into the cart, when all others have begun."""
    await asyncio.sleep(0)
    tool_context.state["cart"] = [*tool_context.state.get("cart", []), item]
    tool_context.state.setdefault("log", []).append(item)
    return list(tool_context.state["cart"])


@tool
async def forget(tool_context: ToolContext) -> dict[str, Any]:
    """Forget all."""
    last = tool_context.state.popitem()
    tool_context.state.clear()
    return {"last": last, "left": dict(tool_context.state), "k": tool_context.state.setdefault("k", [])}


@tool(require_confirmation=True)
def pay(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pay, if the user agrees."""
    tool_context.state["paid"] = tool_context.state.get("paid", 0) + amount
    return {"receipt": amount}


@tool
async def forever() -> None:
    """Never return."""
    await asyncio.Event().wait()


@tool
def put_nonsense(tool_context: ToolContext) -> str:
    """Write state that has no wire form."""
    tool_context.state["bad"] = object()
    tool_context.state["good"] = 1
    return "ok"


@tool
def fail() -> None:
    """Fail."""
    raise ValueError("kaput")


class HangThenFail:
    """An async tool, `fall_in`, that never returns, and a callback, `fail_then`, that fails once the tool has been called."""

    def __init__(self, folder: Path) -> None:
        self._entered = folder / "entered"
        self.left = folder / "left"
        os.mkfifo(self._entered)

    async def fall_in(self) -> None:
        """Never return."""
        try:
            await asyncio.to_thread(self._entered.write_text, "in")
            await asyncio.Event().wait()
        finally:
            self.left.touch()

    async def fail_then(self, _: CallbackContext) -> None:
        await asyncio.to_thread(self._entered.read_text)
        raise ValueError("kaput")


class Gate:
    """A sync tool, `wait`, that blocks its thread until the test opens the gate; both may be in different processes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "gate"
        self._came = folder / "came to the gate"
        os.mkfifo(self._path)

    def wait(self) -> str:
        """Wait at the gate."""
        self._came.touch()
        return self._path.read_text()

    def wait_for_caller(self) -> None:
        """Return once a call has come to the gate."""
        while not self._came.exists():
            time.sleep(0.01)

    def forget_callers(self) -> None:
        """Have `wait_for_caller` wait for another one, such as that of a process that takes the place of one to be killed: until
        that is gone, it would take what `open` writes."""
        self._came.unlink()

    def tool(self) -> FunctionTool:
        return FunctionTool(self.wait)

    def open(self) -> None:
        """Release one caller; waits until there is one."""
        self._path.write_text("open")

    def release(self) -> None:
        """Release the callers that wait, if there are any."""
        with suppress(OSError):
            # Without a reader this fails at once, where `open` would wait for one.
            os.close(os.open(self._path, os.O_WRONLY | os.O_NONBLOCK))


class Rendezvous:
    """Two tools that only return when both run at the same time: one blocks its thread, the other is async."""

    def __init__(self) -> None:
        self._came = {"thread": threading.Event(), "loop": threading.Event()}

    def block(self) -> bool:
        """Come, and block the thread until the other has come."""
        self._came["thread"].set()
        return self._came["loop"].wait(timeout=60)

    async def share(self) -> bool:
        """Wait on the loop until the other has come; then come."""
        met = await asyncio.to_thread(self._came["thread"].wait, 60)
        self._came["loop"].set()
        return met

    def tools(self) -> list[FunctionTool]:
        return [FunctionTool(self.block), FunctionTool(self.share)]

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, _: dict[str, Any]) -> None:
        Rendezvous.__init__(self)


@tool
async def recall(query: str, context: ToolContext) -> list[str]:
    """Search the memory.

    Args:
        query: words.
    """
    return [f"{entry.author}: {entry.text}" for entry in await context.search_memory(query)]


@tool
async def archive(name: str, text: str, context: ToolContext) -> list[str]:
    """Save a text, and tell what is there.

    Args:
        name: of the artifact.
        text: what to save.
    """
    await context.save_artifact(name, Part(text=text))
    return await context.list_artifacts()


class RequestCounter(Tool):
    """Counts the requests of its agent, in state and in the request."""

    name = "stack"

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name)

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:
        count = context.state.get("requests", 0) + 1
        context.state["requests"] = count
        request.contents = [*request.contents, Content.of_text(f"request {count}")]

    async def run(self, args: dict[str, Any], context: ToolContext) -> None:
        return None


request_counter = RequestCounter()


class LockedToolset(Toolset):
    """Has its tool when the user has given a key in the turn.

    Args:
        function: the tool.
    """

    per_run = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool] | CredentialRequest:
        """Return the tool, or ask."""
        if await self.credential_answer(context, "vault") is None:
            return CredentialRequest("vault", {"message": "Which key?"})
        return [FunctionTool(self._function)]


def count_begin(context: CallbackContext) -> None:
    """Count how often the agent begins."""
    context.state["begun"] = context.state.get("begun", 0) + 1

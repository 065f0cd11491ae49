"""Agents and tools that the conversations are played with. They stand in a module so that agents' actors find them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pydantic

from actors import (
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    EventActions,
    FunctionTool,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Model,
    Part,
    Paused,
    Plugin,
    ReadonlyContext,
    Tool,
    ToolContext,
    tool,
)
from actors.messages.model import FunctionDeclaration
from actors.testing import PatternModel


# -------------------------------------------------------------------------------------------------------------- trees
def support_tree(model: Model, billing: Model | None = None) -> LlmAgent:
    """A concierge, and billing below it, which keeps count of the orders it has looked up."""
    return LlmAgent(
        name="concierge",
        model=model,
        sub_agents=[
            LlmAgent(
                name="billing", model=billing or model, instruction="Seen so far: {seen?}.", tools=[look_up], output_key="said"
            )
        ],
    )


def support_tree_by_pattern() -> LlmAgent:
    """The same, without a script."""
    concierge = PatternModel([("bill", {"transfer": "billing"})], default="at your service")
    billing = PatternModel(
        [("order", {"call": "look_up", "args": {"order": "42"}}), ("tool:", "it is late")], default="still here"
    )
    return support_tree(concierge, billing)


# --------------------------------------------------------------------------------------------------------------- tools
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
def numbers() -> Any:
    """Return what has no wire form."""
    return {1, 2, object()}


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
    """An async tool, `fall_in`, that never returns, and a callback, `fail_then`, that fails once somebody is in it."""

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
    """A sync tool, `wait`, that blocks its thread until the test opens the gate, from whatever process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "gate"
        os.mkfifo(self._path)

    def wait(self) -> str:
        """Wait at the gate."""
        return self._path.read_text()

    def tool(self) -> FunctionTool:
        return FunctionTool(self.wait)

    def open(self) -> None:
        """Let one caller through; waits for it to come."""
        self._path.write_text("open")

    def release(self) -> None:
        """Let through whoever waits, if anybody does."""
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


# ------------------------------------------------------------------------------------------------------- custom agents
class ChildRunner(CustomAgent):
    """Runs the children that it is told to, and tells after each how it ended."""

    plan: list[str]

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for child in self.plan:
            outcome = await context.run_agent(child)
            if isinstance(outcome, Paused):
                return
            yield Event(content=Content.of_text(f"{child}: {type(outcome).__name__}", role="model"))


class StateReader(CustomAgent):
    """Runs its child `writer`, and tells what that has left in state under `draft`."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await context.run_agent("writer")
        yield Event(content=Content.of_text(f"read: {context.state['draft']}", role="model"))


class StateAdder(CustomAgent):
    """Adds what stands in state under `amount` to `total`, `temp:` included; fails without an amount."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        total = context.state.get("total", 0) + context.state["amount"]
        yield Event(actions=EventActions(state_delta={"total": total, "temp:last": total}))
        yield Event(content=Content.of_text(f"total {context.state['total']}, last {context.state['temp:last']}", role="model"))


# ----------------------------------------------------------------------------------------------------------- callbacks
async def greet(context: CallbackContext) -> str:
    context.state["greeted"] = context.agent_name
    return "before you ask"


def note_run(context: CallbackContext) -> None:
    context.state["runs"] = context.state.get("runs", 0) + 1


def sign(context: CallbackContext) -> Content:
    return Content.of_text(f"signed, {context.agent_name}", role="model")


def shout(context: CallbackContext, response: LlmResponse) -> LlmResponse | None:
    context.state["heard"] = response.content.text if response.content else None
    return LlmResponse(content=Content.of_text(response.content.text.upper(), role="model")) if response.content else None


def add_rule(context: CallbackContext, request: LlmRequest) -> None:
    request.system_instruction += "\n\nBe brief."


def apologize(context: CallbackContext, request: LlmRequest, error: Exception) -> str:
    return f"sorry: {error}"


def from_cache(called: Tool, args: dict[str, Any], context: ToolContext) -> dict[str, Any] | None:
    return {"status": "cached"} if args.get("order") == "1" else None


def hide_status(called: Tool, args: dict[str, Any], context: ToolContext, result: Any) -> dict[str, Any] | None:
    return {"status": "hidden"} if args.get("order") == "2" else None


def excuse(called: Tool, args: dict[str, Any], context: ToolContext, error: Exception) -> dict[str, Any]:
    return {"excuse": f"{called.name}: {error}"}


def refuse(*_: Any) -> None:
    raise PermissionError("not today")


async def instruction_from_state(context: ReadonlyContext) -> str:
    return f"{context.agent_name} serves {context.user_id}: {{seen?}} {context.state.get('mood', '')}"


class HookRecorder(Plugin):
    """Notes in state, under `seen_by_<name>`, every hook that is called and for whom; changes nothing."""

    def _note(self, hook: str, context: CallbackContext) -> None:
        key = f"seen_by_{self.name}"
        context.state[key] = [*context.state.get(key, []), f"{hook} {context.agent_name}"]

    async def on_user_message_callback(self, context: CallbackContext, content: Content) -> None:
        self._note("message", context)

    def before_run_callback(self, context: CallbackContext) -> None:
        self._note("begin", context)

    def after_run_callback(self, context: CallbackContext) -> None:
        self._note("end", context)

    def before_agent_callback(self, context: CallbackContext) -> None:
        self._note("before_agent", context)

    def after_agent_callback(self, context: CallbackContext) -> None:
        self._note("after_agent", context)

    def before_model_callback(self, context: CallbackContext, request: LlmRequest) -> None:
        self._note("before_model", context)

    def after_model_callback(self, context: CallbackContext, response: LlmResponse) -> None:
        self._note("after_model", context)

    def before_tool_callback(self, tool: Tool, args: dict[str, Any], context: ToolContext) -> None:
        self._note("before_tool", context)

    def after_tool_callback(self, tool: Tool, args: dict[str, Any], context: ToolContext, result: Any) -> None:
        self._note("after_tool", context)


class ErrorAnswerer(Plugin):
    """Has an answer for every error."""

    def on_model_error_callback(self, context: CallbackContext, request: LlmRequest, error: Exception) -> str:
        return f"mended: {error}"

    def on_tool_error_callback(self, tool: Tool, args: dict[str, Any], context: ToolContext, error: Exception) -> Any:
        return {"mended": str(error)}


class SecretFilter(Plugin):
    """Keeps `secret` out of the log: in messages, in answers, and in whole turns that ask for it by `forbidden`."""

    def on_user_message_callback(self, context: CallbackContext, content: Content) -> Content | None:
        context.state["heard"] = context.state.get("heard", 0) + 1
        context.state["temp:raw"] = content.text
        return Content.of_text(content.text.replace("secret", "******")) if "secret" in content.text else None

    async def before_run_callback(self, context: CallbackContext) -> str | None:
        if "forbidden" not in context.user_content.text:
            return None
        context.state["refused"] = context.state["temp:raw"]
        return f"{context.agent_name} may not talk about that"

    def on_event_callback(self, context: CallbackContext, event: Event) -> Event | None:
        if "secret" not in event.text:
            return None
        if not event.partial:
            context.state["censored"] = context.state.get("censored", 0) + 1
        said = event.text.replace("secret", "******")
        return Event(author="nobody", id="x", content=Content.of_text(said, role="model"), actions=event.actions)


class AgentReplacer(Plugin):
    """Answers in the place of every agent."""

    def before_agent_callback(self, context: CallbackContext) -> str:
        return "nobody is in"


class FailingHooks(Plugin):
    """Fails in the hook that it is named after."""

    def on_user_message_callback(self, context: CallbackContext, content: Content) -> None:
        self._break("on_user_message")

    def before_run_callback(self, context: CallbackContext) -> None:
        self._break("before_run")

    def after_run_callback(self, context: CallbackContext) -> None:
        self._break("after_run")

    def on_event_callback(self, context: CallbackContext, event: Event) -> None:
        self._break("on_event")

    def _break(self, hook: str) -> None:
        if self.name == hook:
            raise PermissionError("not today")


class Order(pydantic.BaseModel):
    """What an agent can be asked for."""

    order: int


class Invoice(pydantic.BaseModel):
    """What an answer has to be."""

    order: int
    paid: bool


# ------------------------------------------------------------------------------------------------------------- memory
@tool
async def recall(query: str, context: ToolContext) -> list[str]:
    """Search the memory.

    Args:
        query: words.
    """
    return [f"{entry.author}: {entry.text}" for entry in await context.search_memory(query)]


async def recall_first(context: CallbackContext, request: LlmRequest) -> None:
    """Keeps in state what is remembered of what the user says."""
    if found := await context.search_memory(context.user_content.text):
        context.state["recalled"] = [entry.text for entry in found]


# ---------------------------------------------------------------------------------------------------------- artifacts
@tool
async def archive(name: str, text: str, context: ToolContext) -> list[str]:
    """Save a text, and tell what is there.

    Args:
        name: of the artifact.
        text: what to save.
    """
    await context.save_artifact(name, Part(text=text))
    return await context.list_artifacts()


async def archive_at_first(context: CallbackContext) -> None:
    """Saves what the user has said, and says nothing."""
    await context.save_artifact("first", Part(text=context.user_content.text))


async def annotate(context: CallbackContext, request: LlmRequest) -> None:
    """Saves how long the conversation is."""
    await context.save_artifact("note", Part(text=str(len(request.contents))))


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

"""Hostile code and input: models, tools, agents and plugins that break the interface, and values that are not to be sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from actors import (
    Blob,
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    FunctionCall,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Part,
    Plugin,
    ToolContext,
    tool,
)
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.runtimes import run_turn

NARROW = Settings(max_event_bytes=100_000, max_state_bytes=70_000, max_message_bytes=200_000, max_inline_bytes=1_000)
"""Limits that a test can reach."""


def plain_agent() -> LlmAgent:
    """An agent that answers "fine" to everything."""
    return LlmAgent(name="root", model=PatternModel([], default="fine"))


def log(rt: Runtime, session_id: str = "s1") -> list[Event]:
    """The events of a session, none when there is no session."""
    session = rt.sessions.get("ada", session_id)
    return list(session.events) if session is not None else []


def check_session_works(rt: Runtime, session_id: str = "s1") -> None:
    """Assert that the session's log has no gaps and is readable, and that its next turn works."""
    events = log(rt, session_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert run_turn(rt, "and now?", session_id)[-1].text in ("fine", "done")
    assert len(log(rt, session_id)) > len(events)


def nested(levels: int) -> dict[str, Any]:
    """A dictionary in a dictionary in …"""
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def self_containing_list() -> list[Any]:
    """A list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


class UnprintableError(Exception):
    """An error whose `__str__` fails."""

    def __str__(self) -> str:
        raise ValueError("no")


class ExitingModelDump:
    """Looks like a pydantic model, and ends the program when it is asked for its fields."""

    def model_dump(self, **_: Any) -> dict[str, Any]:
        raise SystemExit(3)


class YieldingModel:
    """A model that yields, or raises, the given responses once; later it says "fine"."""

    model = "says"

    def __init__(self, *yielded: Any) -> None:
        self.yielded: list[Any] | None = list(yielded)

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Yield it, or raise it."""
        yielded, self.yielded = self.yielded, None
        for each in [answer("fine")] if yielded is None else yielded:
            if isinstance(each, BaseException):
                raise each
            yield each


class ToolCallingModel:
    """A model that calls the tools after a message of the user, and says "done" after their results."""

    model = "asks"

    def __init__(self, *names: str) -> None:
        self._names = names

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        if any(request.contents[-1].function_responses()):
            yield answer("done")
        else:
            yield answer(*(Part(function_call=FunctionCall(name=name)) for name in self._names))


def answer(*parts: Any, **fields: Any) -> LlmResponse:
    """A model's answer; texts become parts."""
    made = [Part(text=part) if isinstance(part, str) else part for part in parts]
    return LlmResponse(content=Content(role="model", parts=made), **fields)


def call(**fields: Any) -> Part:
    """A part with a function call."""
    return Part(function_call=FunctionCall(**fields))


def image(size: int) -> Part:
    """A picture of so many bytes."""
    return Part(inline_data=Blob(data=b"\x89" * size, mime_type="image/png"))


Act = Callable[[], Any]


def returns(value: Any) -> Act:
    """Something that returns the value."""
    return lambda: value


def raises(error: BaseException | type[BaseException]) -> Act:
    """Something that raises the error."""

    def act() -> Any:
        raise error

    return act


def cancel_own_task() -> None:
    """Cancel the task in which it is called."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


def with_tools(act: Act) -> LlmAgent:
    """An agent that calls a sync tool and an async tool, which do the same."""

    @tool
    def blocking() -> Any:
        """Do it in a thread."""
        return act()

    @tool
    async def waiting() -> Any:
        """Do it on the event loop."""
        result = act()
        await asyncio.sleep(0)
        return result

    return LlmAgent(name="root", model=ToolCallingModel("blocking", "waiting"), tools=[blocking, waiting])


class ActingAgent(CustomAgent):
    """A custom agent that carries its act out in the first run, and says "fine" afterwards."""

    acts: list[Any]

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for act in [self.acts.pop()] if self.acts else []:
            yield act()
        yield Event(content=Content.of_text("fine", "model"))


def acting_plugin(hook: str, act: Act) -> Plugin:
    """A plugin that carries the act out in the first call of one hook."""
    acts = [act]

    async def meddle(_self: Plugin, context: CallbackContext, *_: Any) -> Any:
        return acts.pop()() if acts else None

    plugin: Plugin = type("Meddler", (Plugin,), {hook: meddle})()
    return plugin


@tool
def exits(tool_context: ToolContext) -> None:
    """End the program."""
    tool_context.state["left"] = True
    raise SystemExit(1)


@tool(num_cpus=1)
def leaves() -> None:
    """End the program, in a task of its own."""
    raise SystemExit(2)


@tool
def floods() -> str:
    """Return far too much."""
    return "x" * 5_000_000

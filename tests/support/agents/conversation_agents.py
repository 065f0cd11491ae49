"""Agents of the conversations in tests. They are in a module so that the agents' processes can import them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pydantic

from actors import Content, CustomAgent, Event, EventActions, InvocationContext, LlmAgent, Model, Paused
from actors.testing import PatternModel
from tests.support.agents.conversation_tools import look_up


def said(text: str) -> Event:
    """What an agent says."""
    return Event(content=Content.of_text(text, role="model"))


def support_tree(model: Model, billing: Model | None = None) -> LlmAgent:
    """A concierge with `billing` below it, which counts the orders that it has looked up."""
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
    """The same tree with models that answer by patterns."""
    concierge = PatternModel([("bill", {"transfer": "billing"})], default="at your service")
    billing = PatternModel(
        [("order", {"call": "look_up", "args": {"order": "42"}}), ("tool:", "it is late")], default="still here"
    )
    return support_tree(concierge, billing)


class ChildRunner(CustomAgent):
    """Runs the children in `plan`, and says after each how it ended."""

    plan: list[str]

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for child in self.plan:
            outcome = await context.run_agent(child)
            if isinstance(outcome, Paused):
                return
            yield said(f"{child}: {type(outcome).__name__}")


class Impatient(CustomAgent):
    """Runs its children `slow` and `other` side by side, and gives `slow` up after a while."""

    patience_s: float

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        other = asyncio.create_task(context.run_agent("other"))
        try:
            async with asyncio.timeout(self.patience_s):
                await context.run_agent("slow")
        except TimeoutError:
            yield said("slow was given up")
        await other


class StateReader(CustomAgent):
    """Runs its child `writer`, and says what that has left in state under `draft`."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await context.run_agent("writer")
        yield said(f"read: {context.state['draft']}")


class StateAdder(CustomAgent):
    """Adds the state's `amount` to `total`, and keeps the sum in `temp:last`. Raises KeyError without an amount."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        total = context.state.get("total", 0) + context.state["amount"]
        yield Event(actions=EventActions(state_delta={"total": total, "temp:last": total}))
        yield said(f"total {context.state['total']}, last {context.state['temp:last']}")


class OneEvent:
    """An async iterator of one event that is no generator, so it has no `aclose`."""

    def __init__(self) -> None:
        self._left = [said("from an iterator")]

    def __aiter__(self) -> OneEvent:
        return self

    async def __anext__(self) -> Event:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class WrongRun(CustomAgent):
    """Its `run` returns something of which its class alone does not tell that it is no async generator."""

    returned: str

    def run(self, context: InvocationContext) -> Any:
        return {
            "coroutine": lambda: asyncio.sleep(0),
            "generator": lambda: (event for event in [Event()]),
            "nothing": lambda: None,
            "iterator": OneEvent,
        }[self.returned]()


class Order(pydantic.BaseModel):
    """What an agent can be asked for."""

    order: int


class Invoice(pydantic.BaseModel):
    """What an answer has to be."""

    order: int
    paid: bool

"""The agents behind the servers of tests, and of turns that are followed: their answers come when the test lets them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from actors import Content, CustomAgent, Event, InvocationContext, LlmAgent, LlmRequest, LlmResponse, tool

PIECES = ["one ", "two ", "three ", "four"]


@tool(long_running=True)
def ask_manager(amount: int) -> None:
    """Ask a manager."""


@tool(require_confirmation=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class SteppedModel:
    """Says an answer in pieces, each when the test lets it, to a message that names a gate; calls tools on other messages.

    Args:
        folder: where the gates are, named pipes from which one byte is read for each piece.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        last = request.contents[-1]
        answers = [response.response for response in last.function_responses()]
        gate = self.folder / last.text if last.text.startswith("gate-") else None
        if answers:
            yield _text(f"got {answers}")
        elif last.text in ("ask", "pay", "ask twice"):
            name = "pay" if last.text == "pay" else "ask_manager"
            calls = [{"functionCall": {"name": name, "args": {"amount": 7 + n}}} for n in range(2 if "twice" in last.text else 1)]
            yield LlmResponse(content=Content.from_dict({"role": "model", "parts": calls}))
        elif gate is not None:
            pipe = os.open(gate, os.O_RDWR | os.O_NONBLOCK)
            try:
                for piece in PIECES:
                    await _readable(pipe)
                    yield LlmResponse(content=Content.of_text(piece, role="model"), partial=True)
                await _readable(pipe)
            finally:
                os.close(pipe)
            yield _text("".join(PIECES))
        elif last.text == "fail":
            raise KeyError("customer")
        elif last.text == "say nothing":
            yield LlmResponse(finish_reason="STOP")
        elif last.text == "be cut":
            yield LlmResponse(content=Content.of_text("Once upon", role="model"), finish_reason="MAX_TOKENS")
        else:
            yield _text("hello")


def _text(text: str) -> LlmResponse:
    return LlmResponse(content=Content.of_text(text, role="model"))


async def _readable(pipe: int) -> None:
    """Wait for a byte in a pipe, and take it."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pipe, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(pipe)
    os.read(pipe, 1)


class Gate:
    """Lets pieces of one turn's answer pass; its name is the message that begins the turn."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = f"gate-{name}"
        os.mkfifo(folder / self.name)
        self._pipe = os.open(folder / self.name, os.O_RDWR)

    def let(self, pieces: int = 1) -> None:
        """Let pieces pass."""
        os.write(self._pipe, b"." * pieces)

    def close(self) -> None:
        """Let everything pass that still waits."""
        self.let(99)


def desk(model: SteppedModel) -> LlmAgent:
    """A concierge with two tools, and an agent below it."""
    billing = LlmAgent(name="billing", description="Orders and payments.", model=model)
    return LlmAgent(name="concierge", model=model, description="Greets.", tools=[ask_manager, pay], sub_agents=[billing])


class Counting(CustomAgent):
    """Counts, and says each number in two pieces before it is complete."""

    upto: int

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for number in range(1, self.upto + 1):
            for piece in ("number ", str(number)):
                yield Event(content=Content.of_text(piece, role="model"), partial=True)
            yield Event(content=Content.of_text(f"number {number}", role="model"))

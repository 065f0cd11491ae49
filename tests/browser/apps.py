"""The apps that the inspector shows in tests: answers that come when a test lets them, questions of each kind, and a graph."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from actors import (
    DEFAULT_ROUTE,
    START,
    Blob,
    CallbackContext,
    Content,
    Flow,
    FunctionCall,
    Graph,
    JoinNode,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    NodeContext,
    Part,
    RequestInput,
    SequentialAgent,
    Supervision,
    Task,
    ToolContext,
    tool,
)
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.frontends.evaluation.criteria import load_criteria
from runtime.frontends.evaluation.eval_sets import load_eval_sets
from runtime.frontends.evaluation.evaluate import CaseResult, evaluate
from tests.support.agents.page_agents import refund, write_letter
from tests.support.agents.web_agents import SteppedModel, ask_manager, pay
from tests.support.models.metered_model import MeteredModel

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de000"
    "0000c49444154789c63b0aef5070001fe01084de15dcc0000000049454e44ae426082"
)
"""A picture of one pixel, as PNG."""


@tool
async def draw(tool_context: ToolContext) -> str:
    """Draw a picture and a table, and write a text."""
    table, text = b'fruit,price\n"pears, ripe",3\n', b"Signed: <b>the concierge</b>"
    for name, kind, data in (("dot.png", "image/png", PIXEL), ("fruit.csv", "text/csv", table), ("note.txt", "text/plain", text)):
        await tool_context.save_artifact(name, Part(inline_data=Blob(data=data, mime_type=kind)))
    tool_context.state["drawn"] = tool_context.state.get("drawn", 0) + 1
    return "drawn"


@tool
def find(order: int) -> str:
    """Find an order."""
    logging.getLogger("shop").warning("order %s is late", order)
    raise LookupError(f"order {order} is gone")


PAPER = """# Refunds

**Every** order, see [the terms](https://terms.example/a) and [this](javascript:alert(1)).

| plan | price |
|---|--:|
| basic | 10 |

```python
print("<script>alert(1)</script>")
```

![a cat](https://pictures.example/cat.png) <img src="https://pictures.example/dog.png" onerror="alert(1)">

1. one
   - two
"""

CONCIERGE = PatternModel(
    [
        ("letter", {"call": "write_letter", "args": {"text": "Dear Ada"}}),
        ("tool:write_letter", "The letter is written."),
        ("draw", {"call": "draw"}),
        ("tool:draw", "Here it is."),
        ("tool:find", "I cannot find it."),
        ("find", {"call": "find", "args": {"order": 42}}),
        ("refund", {"transfer": "billing"}),
        ("markup", "<img src=x onerror=alert(1)> <b>not bold</b>"),
        ("paper", PAPER),
    ],
    default="Order 42 is on its way.",
)
BILLING = MeteredModel(
    PatternModel(
        [("tool:refund", "Done: 80 euros are yours."), ("refund", {"call": "refund", "args": {"amount": 80}})],
        default="How much?",
    )
)


def concierge() -> LlmAgent:
    """A concierge that writes and draws, and an agent below it that asks before it pays."""
    billing = LlmAgent(name="billing", description="Money.", model=BILLING, tools=[refund])
    return LlmAgent(
        name="concierge",
        description="Greets.",
        model=MeteredModel(CONCIERGE),
        tools=[write_letter, draw, find],
        sub_agents=[billing],
    )


def stepped(folder: Path) -> LlmAgent:
    """An agent whose answers come when a test lets them, with a tool that waits for its result, and one that is confirmed."""
    return LlmAgent(name="stepped", model=SteppedModel(folder), tools=[ask_manager, pay])


def ask() -> RequestInput:
    """Ask for an order."""
    schema = {
        "type": "object",
        "properties": {
            "fruit": {"type": "string", "enum": ["pears", "plums"]},
            "number": {"type": "integer", "title": "How many"},
            "wrapped": {"type": "boolean"},
        },
        "required": ["fruit", "number"],
    }
    return RequestInput(interrupt_id="order", message="What would you like?", response_schema=schema)


def order(node_input: dict[str, Any], ctx: NodeContext) -> str:
    """Take an order."""
    ctx.route = "many" if node_input["number"] > 100 else "few"
    return f"{node_input['number']} {node_input['fruit']}, wrapped: {node_input['wrapped']}"


def deliver(node_input: str) -> str:
    """Send a lorry."""
    return f"A lorry brings {node_input}"


def shop() -> Graph:
    """A graph that asks by a form, and goes on by what was ordered."""
    teller = LlmAgent(name="teller", model=PatternModel([], default="It is packed."))
    return Graph(name="shop", edges=[(START, ask, order), (order, {"many": deliver, DEFAULT_ROUTE: teller})])


def press(folder: Path) -> Graph:
    """A graph of two functions and an agent side by side, and a join; the slow one waits for a test whose message names a gate.

    Args:
        folder: where the gates are: see SteppedModel.
    """

    def read(node_input: str) -> str:
        return node_input.strip()

    def check(node_input: str) -> None:
        if node_input.startswith("gate-"):
            with open(folder / node_input, "rb", buffering=0) as gate:
                gate.read(1)

    def publish(node_input: dict[str, str | None]) -> str:
        return f"**published** {node_input['writer']}"

    writer = LlmAgent(name="writer", model=PatternModel([], default="An actor keeps its state."))
    stylist = LlmAgent(name="stylist", model=PatternModel([], default="It reads well."))
    edges = [(START, read, (writer, stylist, check), JoinNode("both"), publish)]
    return Graph(name="press", edges=edges)


class ShakyModel:
    """Says that it is done, but fails the first time in a session that asks for it."""

    def __init__(self) -> None:
        self._failed: set[str] = set()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        asked = request.contents[0].text
        if asked.startswith("shaky") and asked not in self._failed:
            self._failed.add(asked)
            raise LookupError("the line is down")
        yield LlmResponse(content=Content.of_text("second is done.", role="model"))


def look(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
    """Look at a request: it might change it."""


def line() -> SequentialAgent:
    """A workflow of three agents, which runs those that fail once more."""
    first = LlmAgent(name="first", model=PatternModel([], default="first is done."))
    third = LlmAgent(name="third", model=PatternModel([], default="third is done."), before_model_callback=look)
    second = LlmAgent(name="second", model=ShakyModel())
    return SequentialAgent(
        name="line", sub_agents=[first, second, third], supervision=Supervision(strategy="restart", backoff_s=0.05)
    )


class ErrandModel:
    """Finishes its tasks one after the other, but gives up the one that has no way, and waits where it is to ask."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        names = [tool.name for tool in request.tools]
        answered = {response.name for content in request.contents for response in content.function_responses()}
        finish = next(name for name in names if name.startswith("succeed_"))
        task = finish.removeprefix("succeed_")
        call = FunctionCall(name=finish, args={"result": f"{task} is done"})
        if task == "cross":
            call = FunctionCall(name="fail_cross", args={"reason": "the bridge is closed"})
        elif "ask_manager" in names and "ask_manager" not in answered:
            call = FunctionCall(name="ask_manager", args={"amount": 7})
        yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call)]))


def errands() -> Flow:
    """A flow of which a task is done, one waits for a person, one fails, and what needs that is skipped."""
    runner = LlmAgent(name="runner", model=ErrandModel())
    buyer = LlmAgent(name="buyer", model=ErrandModel(), tools=[ask_manager])
    tasks = [
        Task("Write a list", name="list", agents=[runner]),
        Task("Cross the river", name="cross", agents=[runner], depends_on=["list"]),
        Task("Buy fruit", name="buy", agents=[buyer], depends_on=["list"]),
        Task("Visit the market beyond", name="visit", agents=[runner], depends_on=["cross"]),
        Task("Cook", name="cook", agents=[runner], depends_on=["buy"]),
    ]
    return Flow(tasks, name="errands")


def _turn(says: str, expected: str, *tools: str) -> dict[str, object]:
    """A turn of a case, with the tools that it is expected to call."""
    return {
        "user_content": {"parts": [{"text": says}]},
        "final_response": {"parts": [{"text": expected}]},
        "intermediate_data": {"tool_uses": [{"name": name, "args": {"amount": 7}} for name in tools]},
    }


def two_cases(rt: Runtime, file: Path, right: str, wrong: str) -> list[CaseResult]:
    """Run an evaluation of two cases. One passes, and of the other the first of two turns would.

    Args:
        file: where the set is written.
        right, wrong: the expected answers.
    """
    cases = {"right": [_turn("hi", right)], "wrong": [_turn("hi", right), _turn("hi again", wrong, "pay")]}
    file.write_text(json.dumps({"eval_cases": [{"eval_id": name, "conversation": turns} for name, turns in cases.items()]}))
    [eval_set] = load_eval_sets(str(file))
    return list(evaluate(rt, eval_set, load_criteria(None, file)))

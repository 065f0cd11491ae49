"""The apps that ADK's page shows in tests: a desk with transfers, a workflow that waits for a person, and large trees."""

from __future__ import annotations

from actors import LlmAgent, Part, SequentialAgent, ToolContext, tool
from actors.testing import PatternModel

MODEL = PatternModel(
    [
        ("write", {"call": "write_letter", "args": {"text": "Dear Ada"}}),
        ("tool:write_letter", "The letter is written."),
        ("refund", {"transfer": "billing"}),
        ("story", {"stream": ["Once upon ", "a time ", "there was ", "an actor."]}),
    ],
    default="Order 42 is on its way.",
)
REFUNDS = PatternModel(
    [
        ("tool:refund", {"stream": ["Done: 80 euros ", "are yours."]}),
        ("refund|draft", {"call": "refund", "args": {"amount": 80}}),
    ],
    default="How much?",
)


@tool(require_confirmation=True)
async def refund(amount: int, tool_context: ToolContext) -> str:
    """Pay money back."""
    tool_context.state["refunded"] = amount
    return f"{amount} euros"


@tool
async def write_letter(text: str, tool_context: ToolContext) -> str:
    """Write a letter."""
    await tool_context.save_artifact("letter.txt", Part(text=text))
    tool_context.state["letters"] = 1
    return "written"


def desk() -> LlmAgent:
    """A concierge that writes letters, and an agent below it that pays money back once the user agrees."""
    billing = LlmAgent(name="billing", description="Money.", model=REFUNDS, tools=[refund])
    shipping = LlmAgent(name="shipping", description="Parcels.", model=MODEL)
    return LlmAgent(name="concierge", description="Greets.", model=MODEL, tools=[write_letter], sub_agents=[billing, shipping])


def pipeline() -> SequentialAgent:
    """A workflow whose second agent asks before it pays."""
    drafter = LlmAgent(name="drafter", model=PatternModel([], default="A draft of a refund."))
    payer = LlmAgent(name="payer", model=REFUNDS, tools=[refund])
    closer = LlmAgent(name="closer", model=PatternModel([], default="The case is closed."))
    return SequentialAgent(name="pipeline", sub_agents=[drafter, payer, closer])


def large(children: int, grandchildren: int) -> LlmAgent:
    """A tree of two levels below its root."""
    model = PatternModel([], default="Far below.")
    below = [
        LlmAgent(
            name=f"agent_{i}",
            description=f"Number {i}.",
            model=model,
            sub_agents=[LlmAgent(name=f"agent_{i}_{j}", description="Below.", model=model) for j in range(grandchildren)],
        )
        for i in range(children)
    ]
    first = PatternModel([("far", {"transfer": f"agent_{children - 1}"})], default="Hello.")
    return LlmAgent(name="root", model=first, sub_agents=below)

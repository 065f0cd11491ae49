"""The tree under test: a desk that hands over to billing and to orders. A test gives it another model."""

from __future__ import annotations

from typing import Any

from raygrove import LlmAgent, ToolContext, tool

ORDERS = {"42": "late", "43": "on its way"}


@tool
def lookup_order(order_id: str, tool_context: ToolContext) -> dict[str, str]:
    """Look up where an order is."""
    if order_id not in ORDERS:
        return {"error": f"there is no order {order_id}"}
    tool_context.state["order"] = order_id
    return {"status": ORDERS[order_id]}


def desk(model: Any = "gemini-2.5-flash") -> LlmAgent:
    billing = LlmAgent(name="billing", description="Invoices and payments.", instruction="Be exact.")
    orders = LlmAgent(name="orders", description="Where orders are.", instruction="Look orders up.", tools=[lookup_order])
    return LlmAgent(name="desk", model=model, instruction="Hand over.", sub_agents=[billing, orders])

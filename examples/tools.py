"""A tool is a function: its signature tells the model what to give, and its context lets it keep things in the session."""

from typing import Any

from raygrove import LlmAgent, Runtime, ToolContext, tool
from raygrove.testing import PatternModel


@tool
def add_to_cart(item: str, quantity: int, context: ToolContext) -> dict[str, Any]:
    """Put something into the customer's cart.

    Args:
        item: what to buy.
        quantity: how many.
    """
    cart = context.state.setdefault("cart", {})
    cart[item] = quantity
    return {"pieces": sum(cart.values())}


model = PatternModel(
    [
        ("tea", {"call": "add_to_cart", "args": {"item": "tea", "quantity": 2}}),
        ("cup", {"call": "add_to_cart", "args": {"item": "cup", "quantity": "many"}}),
        ('tool:.*"error"', "I need to know how many cups."),
        ("tool:add_to_cart", "It is in your cart."),
    ]
)
clerk = LlmAgent(name="clerk", model=model, instruction="Sell. The cart holds: {cart?}.", tools=[add_to_cart])


def main() -> None:
    with Runtime(clerk, app_name="tools", session_store="sqlite://") as rt:
        for message in ("Two packs of tea, please", "And cups"):
            print(f"\nuser: {message}")
            for event in rt.run(user_id="ada", session_id="s1", message=message):
                for call in event.function_calls():
                    print(f"  {event.author} calls {call.name}({call.args})")
                for response in event.function_responses():
                    print(f"  {response.name} answers {response.response}")
                if event.text:
                    print(f"  {event.author}: {event.text}")
        session = rt.sessions.get("ada", "s1")
        print(f"\nstate: {session.state if session else None}")


if __name__ == "__main__":
    main()

"""Agents hand a conversation over, and whoever has it keeps it: the next message goes where the last answer came from."""

from raygrove import LlmAgent, Runtime
from raygrove.testing import PatternModel

billing = LlmAgent(
    name="billing",
    description="Invoices and payments.",
    model=PatternModel([("thank", {"transfer": "concierge"}), ("when", "You paid on Monday."), ("", "Your invoice is paid.")]),
    instruction="Answer questions about money. Hand everything else back to the concierge.",
)
concierge = LlmAgent(
    name="concierge",
    model=PatternModel([("invoice", {"transfer": "billing"}), ("thank", "My pleasure."), ("", "Welcome! How can I help?")]),
    instruction="Help, or find the colleague who can.",
    sub_agents=[billing],
)


def main() -> None:
    with Runtime(concierge, app_name="transfer", session_store="sqlite://") as rt:
        for message in ("Good morning", "Is my invoice paid?", "And when was that?", "Thank you"):
            print(f"\nuser: {message}")
            turn = rt.run(user_id="ada", session_id="s1", message=message)
            print(f"  (the turn begins at {turn.agent})")
            for event in turn:
                if event.actions.transfer_to_agent:
                    print(f"  {event.author} hands over to {event.actions.transfer_to_agent}")
                elif event.text:
                    print(f"  {event.author}: {event.text}")


if __name__ == "__main__":
    main()

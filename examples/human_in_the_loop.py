"""A person in the middle of a workflow: it pauses for her decision, and goes on behind it instead of beginning again."""

from raygrove import Content, FunctionCall, FunctionResponse, LlmAgent, Part, Runtime, SequentialAgent, tool
from raygrove.testing import PatternModel


@tool(long_running=True)
def ask_for_approval(offer: str) -> None:
    """Ask a person to approve an offer. The decision comes later.

    Args:
        offer: what is to be approved.
    """
    # A real one would send a message. Returning None says that there is no answer yet.


drafter = LlmAgent(name="drafter", model=PatternModel([("", "Ten crates of tea for 900 euros.")]), output_key="offer")
approver = LlmAgent(
    name="approver",
    model=PatternModel(
        [
            ('tool:.*"approved":true', "It is approved."),
            ("", {"call": "ask_for_approval", "args": {"offer": "Ten crates of tea for 900 euros."}}),
        ]
    ),
    instruction="Have this approved: {offer}",
    tools=[ask_for_approval],
)
sender = LlmAgent(name="sender", model=PatternModel([("", "The offer is on its way.")]), instruction="Send: {offer}")
sales = SequentialAgent(name="sales", sub_agents=[drafter, approver, sender])


def run(rt: Runtime, message: str | Content) -> FunctionCall | None:
    """Run a turn; returns what a person has to decide, if anything."""
    waiting = None
    turn = rt.run(user_id="ada", session_id="s1", message=message)
    for event in turn:
        if event.text:
            print(f"{event.author}: {event.text}")
        if event.long_running_tool_ids:
            waiting = next(iter(event.function_calls()))
    print(f"  (the turn is {type(turn.result().outcome).__name__.lower()})")
    return waiting


def main() -> None:
    with Runtime(sales, app_name="human_in_the_loop", session_store="sqlite://") as rt:
        asked = run(rt, "An offer for ten crates of tea, please")
        assert asked is not None
        print(f"to be approved: {(asked.args or {})['offer']}")
        # Hours later, perhaps in another process over the same store: see resume.py.
        decision = FunctionResponse(id=asked.id, name=asked.name, response={"approved": True})
        run(rt, Content(parts=[Part(function_response=decision)]))


if __name__ == "__main__":
    main()

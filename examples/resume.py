"""A turn that waits for a person: the program ends meanwhile, and another goes on where the log ends."""

import tempfile

from raygrove import Content, FunctionCall, FunctionResponse, LlmAgent, Part, Runtime, tool
from raygrove.testing import PatternModel


@tool(long_running=True)
def ask_manager(amount: int) -> None:
    """Ask a manager to allow a refund. The answer comes later.

    Args:
        amount: how much, in euros.
    """
    # A real one would send a message. Returning None says that there is no answer yet.


model = PatternModel(
    [
        ("refund", {"call": "ask_manager", "args": {"amount": 80}}),
        ('tool:ask_manager.*"allowed":true', "The manager has allowed it: 80 euros are on their way."),
    ]
)
refunds = LlmAgent(name="refunds", model=model, instruction="Refund what a manager allows.", tools=[ask_manager])


def ask(store: str) -> FunctionCall:
    """The first program: the turn pauses at the call, which is returned."""
    with Runtime(refunds, app_name="resume", session_store=store) as rt:
        result = rt.run(user_id="ada", session_id="s1", message="I want a refund").result()
        print(f"the turn is {type(result.outcome).__name__.lower()}")
        return next(call for event in result.events for call in event.function_calls())


def answer(store: str, call: FunctionCall) -> None:
    """The second program: it knows the call's id, and brings the answer."""
    response = FunctionResponse(id=call.id, name=call.name, response={"allowed": True})
    with Runtime(refunds, app_name="resume", session_store=store) as rt:
        message = Content(parts=[Part(function_response=response)])
        for event in rt.run(user_id="ada", session_id="s1", message=message):
            print(f"{event.author}: {event.text}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/sessions.db"
        call = ask(store)
        print(f"the manager is asked: {call.name}({call.args})")
        answer(store, call)


if __name__ == "__main__":
    main()

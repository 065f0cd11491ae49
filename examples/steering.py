"""Words to an agent that is at work: it reads them before its next model call. And an earlier message that is replaced."""

import tempfile

from raygrove import LlmAgent, RunConfig, Runtime, ToolContext, tool
from raygrove.testing import ScriptedModel


@tool
async def search(topic: str, context: ToolContext) -> str:
    """Search until the user has heard enough. A real one searches meanwhile, and looks at `context.steering()` now and then."""
    wish = await context.next_message()
    return f"all about {topic}, and stopped at: {wish.text}"


model = ScriptedModel(
    [
        {"call": "search", "args": {"topic": "Rome"}},
        "Three days in Rome, without museums.",
        "Three days in Milan.",
    ]
)
guide = LlmAgent(name="guide", model=model, instruction="Plan trips.", tools=[search])
STEER = RunConfig(on_concurrent_turn="steer")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/sessions.db"
        with Runtime(guide, app_name="guide", session_store=store) as rt:
            first = rt.run(user_id="ada", session_id="trip", message="Three days in Rome, please")
            events = iter(first)
            print("guide calls", next(next(events).function_calls()).name)
            second = rt.run(user_id="ada", session_id="trip", message="No museums", run_config=STEER)
            print("the message joined the turn that runs:", second.invocation_id == first.invocation_id)
            print("guide:", second.result().text)
            assert second.steered is not None
            print("read by", second.steered.agent)
            edited = rt.turns.edit("ada", "trip", first.invocation_id, "Three days in Milan, please")
            print("guide:", edited.result().text)
            session = rt.sessions.get("ada", "trip")
            assert session is not None
            print("the log:", [event.text for event in session.events if event.text])


if __name__ == "__main__":
    main()

"""A loop: a writer improves a text until a critic is content, who then ends the loop by the tool `exit_loop`."""

from raygrove import LlmAgent, LoopAgent, Runtime, ToolContext, exit_loop, tool
from raygrove.testing import PatternModel


@tool
def improve(context: ToolContext) -> dict[str, int]:
    """Cut the text down by a third."""
    context.state["words"] = context.state["words"] * 2 // 3
    return {"words": context.state["words"]}


@tool
def count(context: ToolContext) -> dict[str, bool]:
    """Tell whether the text is short enough."""
    return {"short_enough": context.state["words"] <= 100}


writer = LlmAgent(
    name="writer",
    model=PatternModel([("tool:improve", "Here is a shorter one."), ("", {"call": "improve"})]),
    instruction="Make the text shorter.",
    tools=[improve],
)
critic = LlmAgent(
    name="critic",
    model=PatternModel([("tool:count.*true", {"call": "exit_loop"}), ("tool:count", "Too long."), ("", {"call": "count"})]),
    instruction="When the text is short enough, call exit_loop; otherwise say what is wrong.",
    tools=[count, exit_loop],
)
# max_iterations is for critics that are never content.
editing = LoopAgent(name="editing", sub_agents=[writer, critic], max_iterations=10)


def main() -> None:
    with Runtime(editing, app_name="loop", session_store="sqlite://") as rt:
        for event in rt.run(user_id="ada", session_id="s1", message="Shorten it", state_delta={"words": 300}):
            for response in event.function_responses():
                print(f"  {event.author}: {response.name} gives {response.response}")
            if event.text:
                print(f"{event.author}: {event.text}")
            if event.actions.escalate:
                print(f"{event.author} ends the loop")
        session = rt.sessions.get("ada", "s1")
        print(f"words: {session.state['words'] if session else None}")


if __name__ == "__main__":
    main()

"""Memory: what was said in one conversation is found from another one, by its words."""

from raygrove import LlmAgent, Runtime, load_memory
from raygrove.testing import PatternModel

model = PatternModel(
    [
        ("what do I like", {"call": "load_memory", "args": {"query": "like drink"}}),
        ("tool:load_memory.*green tea", "You like green tea."),
        ("tool:load_memory", "I remember nothing of it."),
        ("like", "I will keep it in mind."),
    ]
)
waiter = LlmAgent(name="waiter", model=model, instruction="Serve. Look up what the guest likes.", tools=[load_memory])


def main() -> None:
    with Runtime(waiter, app_name="memory", session_store="sqlite://") as rt:
        rt.run(user_id="ada", session_id="monday", message="I like to drink green tea").result()
        # What of a conversation is worth remembering, and when, is for the program to say.
        rt.memory.add_session("ada", "monday")
        for user_id in ("ada", "bob"):
            for event in rt.run(user_id=user_id, session_id="friday", message="What do I like?"):
                if event.text:
                    print(f"{event.author} to {user_id}: {event.text}")
        for entry in rt.memory.search("ada", "tea"):
            print(f"found: {entry.author} in {entry.session_id}: {entry.text}")


if __name__ == "__main__":
    main()

"""The smallest program: one agent, one question, and the events that answer it."""

from raygrove import LlmAgent, Runtime
from raygrove.testing import PatternModel

# Answers by patterns, so that the example needs no key. With one: model="gemini-2.5-flash".
model = PatternModel([("hello|hi", "Hello! What can I do for you?")])

greeter = LlmAgent(name="greeter", model=model, instruction="Greet people and offer help.")


def main() -> None:
    # Without session_store the conversation is kept in .raygrove; this one is gone when the program ends.
    with Runtime(greeter, app_name="hello", session_store="sqlite://") as rt:
        for event in rt.run(user_id="ada", session_id="s1", message="Hello there"):
            print(f"{event.author}: {event.text}")


if __name__ == "__main__":
    main()

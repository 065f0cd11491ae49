"""A callback watches one agent, a plugin all of them and the turns as well; both may answer in somebody's place."""

from raygrove import CallbackContext, Content, LlmAgent, LlmRequest, Plugin, Runtime
from raygrove.testing import PatternModel


def opening_hours(context: CallbackContext) -> str | None:
    """Before billing runs: what is returned is its answer, None lets it run."""
    return "We are closed on Sundays." if "sunday" in context.user_content.text.lower() else None


class Auditor(Plugin):
    """Counts model calls of all agents, and lets no card number into the log."""

    def on_user_message_callback(self, context: CallbackContext, content: Content) -> Content:
        words = ("[card]" if word.isdigit() and len(word) == 16 else word for word in content.text.split())
        return Content.of_text(" ".join(words))

    def before_model_callback(self, context: CallbackContext, request: LlmRequest) -> None:
        context.state["model_calls"] = context.state.get("model_calls", 0) + 1


billing = LlmAgent(
    name="billing",
    model=PatternModel([("card", "I have noted your card.")]),
    before_agent_callback=opening_hours,
)
concierge = LlmAgent(
    name="concierge",
    model=PatternModel([("pay|card", {"transfer": "billing"})]),
    instruction="Help, or find the colleague who can.",
    sub_agents=[billing],
)


def main() -> None:
    with Runtime(concierge, app_name="plugins", session_store="sqlite://", plugins=[Auditor()]) as rt:
        for message in ("I pay with 4000123412341234", "May I come on Sunday?"):
            for event in rt.run(user_id="ada", session_id="s1", message=message):
                if event.text:
                    print(f"{event.author}: {event.text}")
        session = rt.sessions.get("ada", "s1")
        if session is not None:
            print(f"stored: {session.events[0].text}")
            print(f"model calls: {session.state['model_calls']}")


if __name__ == "__main__":
    main()

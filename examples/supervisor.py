"""A supervisor in code: an agent works in the background; when it says that it is stuck, it is cancelled and started again."""

from collections.abc import AsyncIterator

from raygrove import Content, CustomAgent, Event, InvocationContext, LlmAgent, Runtime, ask_parent
from raygrove.testing import ScriptedModel


class Postmaster(CustomAgent):
    """Has a letter taken over the bridge, or, where that does not work, through the tunnel."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        run = await context.start("courier", "Take the letter over the bridge")
        while True:
            message = await context.next_message()
            said = message.text.splitlines()[-1]
            text = f"{message.sender} {message.status}: {said}" if message.status != "cancelled" else "I send another one"
            yield Event(content=Content.of_text(text, role="model"))
            match message.status:
                case "asks":
                    # An answer would be: await context.steer_run(run.id, "wait there")
                    await context.cancel_run(run.id)
                case "cancelled":
                    run = await context.start("courier", "Take the letter through the tunnel")
                case _:
                    return


# Two runs of one agent: the first one asks, and is cancelled while it waits for the answer.
model = ScriptedModel([{"call": "ask_parent", "args": {"question": "The bridge is closed. What now?"}}, "The letter is there."])
courier = LlmAgent(name="courier", description="Takes letters.", model=model, tools=[ask_parent])
postmaster = Postmaster(name="postmaster", sub_agents=[courier])


def main() -> None:
    with Runtime(postmaster, app_name="post", session_store="sqlite://") as rt:
        for event in rt.run(user_id="ada", session_id="s1", message="A letter for Bob"):
            if event.author == "postmaster" and event.text:
                print(f"{event.author}: {event.text}")
        for run in rt.background.list("ada", "s1"):
            print(f"{run.agent} {run.status}: {run.result or 'nothing'}")


if __name__ == "__main__":
    main()

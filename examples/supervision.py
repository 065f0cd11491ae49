"""A child that fails is run again, or passed over; the log tells which, and why."""

from collections.abc import AsyncIterator

from raygrove import (
    Content,
    CustomAgent,
    Event,
    EventActions,
    InvocationContext,
    LlmAgent,
    Runtime,
    SequentialAgent,
    Supervision,
    event_lines,
)
from raygrove.testing import PatternModel


class Archive(CustomAgent):
    """Stands for a service that is down for a while: the first so many times that it is asked, it fails."""

    failures: int

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        asked = context.state.get(self.name, 0) + 1
        yield Event(actions=EventActions(state_delta={self.name: asked}))
        if asked <= self.failures:
            raise ConnectionError("the archive does not answer")
        yield Event(content=Content.of_text(f"found, asked {asked} times", role="model"))


# Whatever fails for a moment is asked again, after a tenth of a second, two tenths …; what has failed four times goes up.
again = Supervision(strategy="restart", max_restarts=3, within_s=60, backoff_s=0.1)
letters = SequentialAgent(name="letters", sub_agents=[Archive(name="letter_archive", failures=1)], supervision=again)
photos = SequentialAgent(name="photos", sub_agents=[Archive(name="photo_archive", failures=99)], supervision=again)

# An answer without photos is better than none: what goes up from one of the two does not end the turn.
research = SequentialAgent(name="research", sub_agents=[letters, photos], supervision=Supervision(strategy="skip"))
writer = LlmAgent(name="writer", model=PatternModel([("", "Here is what there is.")]), instruction="Tell what was found.")
root = SequentialAgent(name="root", sub_agents=[research, writer])


def main() -> None:
    with Runtime(root, app_name="supervision", session_store="sqlite://") as rt:
        for event in rt.run(user_id="ada", session_id="s1", message="What do we have of the summer of 1973?"):
            for kind, text in event_lines(event):
                if kind != "state":
                    print(f"{event.author}: {text}")


if __name__ == "__main__":
    main()

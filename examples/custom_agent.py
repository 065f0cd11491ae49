"""An agent that code drives, not a model: it runs its children, reads what they left in state, and decides."""

import json
from collections.abc import AsyncIterator

from pydantic import BaseModel

from raygrove import Content, CustomAgent, Event, EventActions, InvocationContext, LlmAgent, Runtime
from raygrove.testing import PatternModel


class Review(BaseModel):
    """What the critic has to answer with."""

    score: int
    remark: str


class Newsroom(CustomAgent):
    """Has a text written and reviewed, and publishes it when it is good enough."""

    good_enough: int = 7

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await context.run_agent("writer")
        await context.run_agent("critic")
        review = Review.model_validate(context.state["review"])
        verdict = "published" if review.score >= self.good_enough else "sent back"
        yield Event(
            content=Content.of_text(f"{verdict}: {review.remark}", role="model"),
            actions=EventActions(state_delta={"verdict": verdict}),
        )


newsroom = Newsroom(
    name="newsroom",
    good_enough=8,
    sub_agents=[
        LlmAgent(name="writer", model=PatternModel([("", "Actors live when they are spoken to.")])),
        LlmAgent(
            name="critic",
            model=PatternModel([("", json.dumps({"score": 9, "remark": "short and true"}))]),
            output_schema=Review,
            output_key="review",
        ),
    ],
)


def main() -> None:
    with Runtime(newsroom, app_name="custom_agent", session_store="sqlite://") as rt:
        for event in rt.run(user_id="ada", session_id="s1", message="Write about actors"):
            print(f"{event.author}: {event.text}")


if __name__ == "__main__":
    main()

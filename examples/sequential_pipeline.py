"""A pipeline: each agent does one step, and hands its result on through the session's state."""

from raygrove import LlmAgent, Runtime, SequentialAgent
from raygrove.testing import PatternModel

pipeline = SequentialAgent(
    name="pipeline",
    sub_agents=[
        LlmAgent(
            name="outliner",
            model=PatternModel([("", "1. What an actor is. 2. Why it never shares memory.")]),
            instruction="Outline an article about what the user asks for.",
            output_key="outline",
        ),
        LlmAgent(
            name="writer",
            model=PatternModel([("", "An actor keeps its state to itself, and answers letters.")]),
            instruction="Write the article. The outline: {outline}",
            output_key="draft",
        ),
        LlmAgent(
            name="editor",
            model=PatternModel([("", "An actor keeps its state to itself and answers messages.")]),
            instruction="Correct this, and write nothing else: {draft}",
            output_key="article",
        ),
    ],
)


def main() -> None:
    with Runtime(pipeline, app_name="sequential_pipeline", session_store="sqlite://") as rt:
        for event in rt.run(user_id="ada", session_id="s1", message="Write about actors"):
            # Events without text are the pipeline's own notes of how far it is.
            if event.text:
                print(f"{event.author}: {event.text}")
        session = rt.sessions.get("ada", "s1")
        print(f"state: {sorted(session.state) if session else None}")


if __name__ == "__main__":
    main()

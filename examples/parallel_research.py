"""Research in parallel: three agents work at the same time, unseen by each other, and a fourth puts their findings together."""

from raygrove import LlmAgent, ParallelAgent, Runtime, SequentialAgent
from raygrove.testing import PatternModel

FINDINGS = {
    "history": "Hewitt described actors in 1973.",
    "practice": "Telephone switches have run on them since 1986.",
    "critics": "Mailboxes without a limit grow until memory ends.",
}

researchers = ParallelAgent(
    name="researchers",
    sub_agents=[
        LlmAgent(
            name=topic,
            model=PatternModel([("", finding)]),
            instruction=f"Find out what there is to know about the {topic} of what the user asks for.",
            output_key=topic,
        )
        for topic, finding in FINDINGS.items()
    ],
)
editor = LlmAgent(
    name="editor",
    model=PatternModel([("", "Actors are fifty years old, proven, and need bounded mailboxes.")]),
    instruction="Put together: {history} {practice} {critics}",
)
research = SequentialAgent(name="research", sub_agents=[researchers, editor])


def main() -> None:
    with Runtime(research, app_name="parallel_research", session_store="sqlite://") as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="Tell me about actors")
        said = [event for event in turn.result().events if event.text]
        # Whoever is done first speaks first: sorted, so that this prints the same every time.
        for event in sorted(said[:-1], key=lambda event: event.author):
            print(f"[{event.branch}] {event.author}: {event.text}")
        print(f"{said[-1].author}: {said[-1].text}")


if __name__ == "__main__":
    main()

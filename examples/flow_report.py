"""A flow: a plan, three researches that need only the plan and are done at the same time, and a report of them all."""

from pydantic import BaseModel

from raygrove import Flow, LlmAgent, Runtime, Task
from raygrove.testing import PatternModel


class Plan(BaseModel):
    title: str
    questions: list[str]


QUESTIONS = ["Who described actors first?", "Who runs on them?", "What can go wrong?"]
PLAN = {"title": "Actors", "questions": QUESTIONS}
REPORT = "Actors: described by Hewitt in 1973, running telephone switches since 1986, and in need of bounded mailboxes."


def finishes(task: str, result: object) -> PatternModel:
    """A model that knows the result of one task."""
    return PatternModel([], default={"call": f"succeed_{task}", "args": {"result": result}})


editor = LlmAgent(name="editor", instruction="You plan reports.", model=finishes("plan", PLAN))
writer = LlmAgent(name="writer", instruction="You write reports.", model=finishes("report", REPORT))
history = LlmAgent(name="history", model=finishes("first", "Hewitt described actors in 1973."))
practice = LlmAgent(name="practice", model=finishes("users", "Telephone switches have run on them since 1986."))
critics = LlmAgent(name="critics", model=finishes("risks", "Mailboxes without a limit grow until memory ends."))

plan = Task("Plan a report about {topic}.", name="plan", result_type=Plan, agents=[editor])
researches = [
    Task(question, name=name, agents=[agent], depends_on=[plan])
    for question, name, agent in zip(QUESTIONS, ("first", "users", "risks"), (history, practice, critics), strict=True)
]
report = Task("Write the report.", name="report", agents=[writer], depends_on=researches)
flow = Flow([report], name="report_flow")


def main() -> None:
    with Runtime(flow, app_name="flow_report", session_store="sqlite://") as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="I need a report", state_delta={"topic": "actors"})
        for event in turn:
            for name in event.flow.ready if event.flow is not None else ():
                print(f"{name} can begin")
        for task in turn.result().tasks.values():
            print(f"{task.name} is {task.status}: {task.result}")


if __name__ == "__main__":
    main()

"""Tasks made while the flow runs: a planner decides what there is to do, two workers do it, then the planner sums up."""

from raygrove import Flow, LlmAgent, Runtime, Task, create_tasks
from raygrove.testing import PatternModel

STEPS = [
    {"name": "measure", "objective": "Measure the wall.", "agents": ["apprentice"]},
    {"name": "choose", "objective": "Choose a colour.", "agents": ["painter"], "labels": ["white", "green"]},
    {"name": "paint", "objective": "Paint the wall.", "agents": ["painter"], "depends_on": ["measure", "choose"]},
]


def call(name: str, **args: object) -> dict[str, object]:
    return {"call": name, "args": args}


planner = LlmAgent(
    name="planner",
    tools=[create_tasks],
    model=PatternModel(
        [("tool:create_tasks", call("succeed_renovate", result="The wall is green."))],
        default=call("create_tasks", tasks=STEPS, part_of="renovate"),
    ),
)
apprentice = LlmAgent(name="apprentice", model=PatternModel([], default=call("succeed_measure", result="12 square metres")))
painter = LlmAgent(
    name="painter",
    model=PatternModel(
        [("tool:succeed_choose", call("succeed_paint", result="It took two hours."))], default=call("succeed_choose", result=1)
    ),
)
flow = Flow([Task("Renovate the wall.", name="renovate", agents=[planner])], agents=[planner, apprentice, painter], name="works")


def main() -> None:
    with Runtime(flow, app_name="flow_planner", session_store="sqlite://") as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="Please begin")
        for event in turn:
            for task in event.flow.created if event.flow is not None else ():
                print(f"{event.author} makes {task.name}: {task.objective}")
            for name, change in event.flow.changes.items() if event.flow is not None else ():
                print(f"{event.author}: {name} is {change.status}")
        print(turn.result().text)


if __name__ == "__main__":
    main()

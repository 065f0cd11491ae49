"""Ten thousand agents: all are there at once, and only those that are spoken to have a process."""

from raygrove import LlmAgent, Runtime
from raygrove.testing import PatternModel

MATTERS = ["parking", "taxes", "schools", "parks", "housing", "health", "water", "waste", "roads", "libraries"]
DISTRICTS = ["north", "south", "east", "west", "harbour", "hill", "river", "station", "market", "university"]
CLERKS = 99


def reception() -> PatternModel:
    """Asks for the department: no prompt could list a hundred of them, so the agent has a tool to find them."""
    permit = {"call": "find_agents", "args": {"query": "parking permit in the harbour district"}}
    return PatternModel([("permit", permit), ("tool:find_agents", {"transfer": "parking_harbour"})], default="Welcome.")


def department() -> PatternModel:
    """Asks for a clerk among those of the department and the other departments."""
    permit = {"call": "find_agents", "args": {"query": "clerk 7 parking harbour"}}
    return PatternModel([("permit", permit), ("tool:find_agents", {"transfer": "parking_harbour_clerk_7"})])


def city_hall() -> LlmAgent:
    """A reception, a hundred departments, and ninety-nine clerks in each."""
    in_department, clerk = department(), PatternModel([("permit", "Your permit is ready.")], default="It is valid for a year.")
    departments = [
        LlmAgent(
            name=f"{matter}_{district}",
            description=f"Permits, forms and questions: {matter} in the {district} district.",
            model=in_department,
            sub_agents=[
                LlmAgent(name=f"{matter}_{district}_clerk_{number}", description=f"Desk {number}.", model=clerk)
                for number in range(1, CLERKS + 1)
            ],
        )
        for matter in MATTERS
        for district in DISTRICTS
    ]
    return LlmAgent(name="reception", model=reception(), sub_agents=departments)


def main() -> None:
    with Runtime(city_hall(), app_name="large_tree", session_store="sqlite://") as rt:
        print(f"{1 + len(MATTERS) * len(DISTRICTS) * (1 + CLERKS):,} agents are ready")
        for message in ("I need a parking permit", "How long is it valid?"):
            print(f"\nuser: {message}")
            for event in rt.run(user_id="ada", session_id="s1", message=message):
                for response in event.function_responses():
                    if response.name == "find_agents":
                        print(f"  {event.author} finds {', '.join(found['name'] for found in response.response['agents'][:2])} …")
                if event.actions.transfer_to_agent:
                    print(f"  {event.author} hands over to {event.actions.transfer_to_agent}")
                elif event.text:
                    print(f"  {event.author}: {event.text}")
        print(f"\nagents that live: {', '.join(sorted(rt.statistics().agents))}")


if __name__ == "__main__":
    main()

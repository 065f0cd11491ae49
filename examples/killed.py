"""`kill -9` for every process of a turn, in the middle of a tool: the turn goes on where its log ends."""

import os
import signal
import tempfile
import time
from pathlib import Path

from raygrove import LlmAgent, Runtime, ToolContext, tool
from raygrove.testing import PatternModel


@tool
def find_order(order: int, context: ToolContext) -> dict[str, int]:
    """Find an order."""
    take_note(context)
    return {"order": order, "euros": 80}


@tool
def refund(euros: int, context: ToolContext) -> str:
    """Pay money back. A real one sends the id of its call along, by which the bank knows a repetition."""
    if take_note(context) == 1:
        time.sleep(60)  # Killed meanwhile.
    return f"{euros} euros are on their way"


def take_note(context: ToolContext) -> int:
    """Write down which process runs a call, outside of all processes. Returns how often the call has begun."""
    path = Path(context.state["notes"], context.function_call_id)
    with path.open("a") as notes:
        notes.write(f"{os.getpid()}\n")
    return len(path.read_text().split())


model = PatternModel(
    [
        ("order 42", {"call": "find_order", "args": {"order": 42}}),
        ("tool:find_order", {"call": "refund", "args": {"euros": 80}}),
        ("tool:refund", "80 euros are on their way to you."),
    ]
)
desk = LlmAgent(name="desk", model=model, instruction="Refund orders.", tools=[find_order, refund])


def kill_all(rt: Runtime, notes: Path) -> None:
    """End the agent's process, in which the tool runs, the Runner's and the Session actor's."""
    while not notes.exists():
        time.sleep(0.01)
    figures = rt.statistics()
    pids = [figures.agents["desk"].pid, figures.runner.pid, figures.session.pid]
    print(f"$ kill -9 {' '.join(map(str, pids))}    # the agent, the Runner, the Session actor")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/sessions.db"
        with Runtime(desk, app_name="killed", session_store=store) as rt:
            refund_order(rt, Path(folder))


def refund_order(rt: Runtime, folder: Path) -> None:
    """Run a turn, and kill its processes when it calls `refund`."""
    began = time.monotonic()
    notes: dict[str, Path] = {}
    print("ada: Refund order 42, please.")
    turn = rt.run(user_id="ada", session_id="s1", message="Refund order 42, please.", state_delta={"notes": str(folder)})
    for event in turn:
        for call in event.function_calls():
            print(f"desk calls {call.name}({call.args})")
            notes[call.name] = folder / str(call.id)
            if call.name == "refund":
                kill_all(rt, notes[call.name])
        for response in event.function_responses():
            print(f"{response.name} gives {response.response}")
        if event.text:
            print(f"{event.author}: {event.text}")
    print(f"\n{time.monotonic() - began:.1f} s; the log has {len(turn.result().events)} events")
    for name, path in notes.items():
        print(f"{name} ran in process {', then in '.join(path.read_text().split())}")


if __name__ == "__main__":
    main()

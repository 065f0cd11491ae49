"""A detached deployment, and a driver that starts it, begins a turn, and then waits to be killed.

Arguments of the driver: the address of the Ray cluster, the folder of the stores.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from actors import LlmAgent, tool
from actors.testing import PatternModel
from runtime import Runtime
from tests.support.runtimes import Deploy

APP = "outpost"


class PipeGate:
    """A sync tool, `wait`, that blocks its thread until a test writes to `path`, a named pipe."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "door"

    def wait(self) -> str:
        """Wait at the gate."""
        return self.path.read_text()


@tool(num_cpus=1)
def where() -> int:
    """Return the id of this process."""
    return os.getpid()


def detached_tree(folder: Path) -> LlmAgent:
    """A guard that waits at the gate, and a scout whose definition is larger than what Ray sends inline in an argument."""
    guard = PatternModel([("wait", {"call": "wait"}), ("scout", {"transfer": "scout"}), ("tool:", "it is open")], default="hello")
    scout = PatternModel([("tool:", "found"), ("back", {"transfer": "guard"}), ("", {"call": "where"})])
    return LlmAgent(
        name="guard",
        model=guard,
        tools=[PipeGate(folder).wait],
        sub_agents=[LlmAgent(name="scout", model=scout, tools=[where], instruction=os.urandom(200_000).hex())],
    )


def detached_runtime(folder: Path, address: str | None) -> Runtime:
    """The deployment, not started yet."""
    return Deploy("ray", folder)(detached_tree(folder), app_name=APP, address=address, detached=True)


if __name__ == "__main__":
    address, folder = sys.argv[1:]
    with detached_runtime(Path(folder), address) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="wait")
        events = iter(turn)
        print(json.dumps([turn.invocation_id, next(events).seq]), flush=True)
        signal.pause()

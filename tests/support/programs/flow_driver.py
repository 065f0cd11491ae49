"""A driver in a process of its own, which dies in the middle of a flow that is no part of its tree.

Argument: the folder of the stores.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from actors import Flow, LlmAgent, LlmRequest, LlmResponse, RunConfig, Task
from actors.testing import PatternModel
from runtime import Runtime
from tests.support.runtimes import Deploy


class DeadlyModel:
    """A model that ends its process when it is asked."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """End the process."""
        os._exit(7)
        yield LlmResponse()  # type: ignore[unreachable]


def errand() -> Flow:
    """Two tasks of different agents, one after the other."""
    first = Task("Look", name="first", agents=["scout"], result_type=int)
    return Flow([Task("Tell", name="second", agents=["clerk"], depends_on=[first])], name="errand")


def errand_runtime(folder: Path, *, is_deadly: bool) -> Runtime:
    """The deployment, not started yet. The model of the second agent may end the process."""
    scout = LlmAgent(name="scout", model=PatternModel([], default={"call": "succeed_first", "args": {"result": 42}}))
    told = PatternModel([], default={"call": "succeed_second", "args": {"result": "It is 42."}})
    clerk = LlmAgent(name="clerk", model=DeadlyModel() if is_deadly else told)
    return Deploy("local", folder)(LlmAgent(name="root", model=told, sub_agents=[scout, clerk]))


if __name__ == "__main__":
    with errand_runtime(Path(sys.argv[1]), is_deadly=True) as rt:
        config = RunConfig(timeout=60)
        rt.run_flow(errand(), user_id="ada", session_id="s1", invocation_id="e-1", run_config=config).result()

"""What events say of a flow: its tasks, their states, and the turns of agents (semantics.md section 7).

Every event of a flow carries a `FlowMark`. The marks in the order of the log are the whole state of a flow; nothing else is
stored.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from actors.messages.json_types import JsonValue
from actors.messages.shown import Shown

TaskStatus = Literal["pending", "running", "successful", "failed", "skipped"]

CONTROLLER = "@controller"
"""The agent that runs flows which are not part of the tree. It is no identifier, so no agent of a user has this name."""

ROUND = "round"
"""The kind of the run of an LLM agent for one round of a flow."""


class _Value(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of everything in a mark: immutable, camelCase in JSON, defaults left out."""


class TaskNode(_Value, frozen=True, kw_only=True):
    """A task without its Python parts: result type and tools stay in the flow's definition.

    Attributes:
        name: unique in the flow.
        objective: what to achieve.
        agents: the agents that may work on it.
        depends_on: tasks that have to be complete before it can begin.
        parent: the task that this one is a part of, and that waits for it; None without one.
        on_failed_dependency: "skip" skips it when a task that it needs failed or was skipped, "run" runs it all the same.
        max_llm_calls: model calls after which it fails, counted since its agent has last finished any task; None is no limit.
        labels: for a task that was created while the flow ran: the texts of which its result is one; empty when its result is
            any text.
        instructions: how to go about it, for the agents that work on it; "" for none.
        interactive: its agents may ask the user.
        completion_agents: the agents that may end it; empty when all its agents may.
    """

    name: str
    objective: str = ""
    agents: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    parent: str | None = None
    on_failed_dependency: Literal["skip", "run"] = "skip"
    max_llm_calls: int | None = None
    labels: tuple[str, ...] = ()
    instructions: str = ""
    interactive: bool = False
    completion_agents: tuple[str, ...] = ()

    def may_be_ended_by(self, agent: str) -> bool:
        """True when the agent, which works on the task, may also complete it or give it up."""
        return not self.completion_agents or agent in self.completion_agents


class TaskChange(_Value, frozen=True, kw_only=True):
    """A task's new status.

    Attributes:
        status: the status.
        result: the result of a successful task, as plain data.
        reason: why the task failed or was skipped; "" otherwise.
    """

    status: TaskStatus
    result: JsonValue = None
    reason: str = ""


class FlowMark(_Value, frozen=True, kw_only=True):
    """What an event says of a flow.

    Attributes:
        run: the run of the flow; unique in the log.
        tasks: the tasks that the event was made for; empty when it belongs to none.
        round: the number of the round, from 1, that the event belongs to; 0 for events of the controller.
        llm_calls: model calls that were made for the event.
        goal: in the first event of a run, the tasks to complete. The tasks that they need are completed too.
        created: tasks that exist from now on.
        ready: tasks that agents can work on from now on.
        changes: new statuses, by task.
        turns: by agent, the tasks of a turn that begins now, or that has other tasks from now on.
        ends_turn: the author has ended its turn.
        next_agent: the agent that the author has named to go on; None when it named none.
        stopped: the condition that has stopped the flow before all tasks were done; "" for none.
        objectives: in the last event of a run, the objectives of its last tasks as agents were given them, where they were
            templates.
    """

    run: str
    tasks: tuple[str, ...] = ()
    round: int = 0
    llm_calls: int = 0
    goal: tuple[str, ...] = ()
    created: tuple[TaskNode, ...] = ()
    ready: tuple[str, ...] = ()
    changes: dict[str, TaskChange] = {}
    turns: dict[str, tuple[str, ...]] = {}
    ends_turn: bool = False
    next_agent: str | None = None
    stopped: str = ""
    objectives: dict[str, str] = {}


class Work(_Value, frozen=True, kw_only=True):
    """One round that the controller asks an agent to do: one model call and the tools that it calls.

    Attributes:
        definition: the name under which the flow's definition is found.
        run: the run of the flow.
        round: the number of the round, from 1.
        tasks: the tasks that the agent works on.
        peers: the other agents that may work on them.
        begins: the round is the first of a turn.
        only_open_calls: the agent runs the calls that a lost round left open, and does not call its model.
    """

    definition: str
    run: str
    round: int
    tasks: tuple[str, ...]
    peers: tuple[str, ...] = ()
    begins: bool = False
    only_open_calls: bool = False

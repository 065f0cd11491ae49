"""The board of a flow, as programs read it with its turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from actors.messages.flow import TaskStatus
from actors.messages.json_types import JsonValue
from actors.messages.shown import Shown


class BoardTask(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A task of a flow, and how far it is.

    Attributes:
        name, objective: the task, and what it is to achieve.
        status: pending, running, successful, failed or skipped.
        is_ready: agents may work on it: it is not complete, and all that it needs is.
        needs: the tasks that have to be complete before it begins: its dependencies and its parts.
        parent: the task that it is a part of; "" for none.
        agents: the agents that may work on it.
        works: the agents that work on it now.
        result: of a successful task, as plain data.
        reason: why it failed or was skipped; "" otherwise.
        llm_calls: model calls for it since its agent last finished any task; max_llm_calls: those after which it fails.
    """

    name: str
    objective: str = ""
    status: TaskStatus
    is_ready: bool = False
    needs: Sequence[str] = ()
    parent: str = ""
    agents: Sequence[str] = ()
    works: Sequence[str] = ()
    result: JsonValue = None
    reason: str = ""
    llm_calls: int = 0
    max_llm_calls: int | None = None


class FlowBoard(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One run of a flow.

    Attributes:
        run: the run; unique in the log.
        first_seq, last_seq: its first and its newest event.
        goal: the tasks that it is for.
        tasks: all of its tasks, in the order in which they were made.
        counts: how many of them have each status.
        rounds, llm_calls: rounds and model calls so far.
        stopped: the condition that has stopped it before all tasks were done; "" for none.
    """

    run: str
    first_seq: int
    last_seq: int
    goal: Sequence[str] = ()
    tasks: Sequence[BoardTask] = ()
    counts: Mapping[TaskStatus, int] = {}
    rounds: int = 0
    llm_calls: int = 0
    stopped: str = ""

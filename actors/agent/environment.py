"""What the agents of one process share, such as their ways to the other actors; and what all runs of one agent share."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from actors.agent.views import ViewMemory
from actors.behaviours.interceptor import RunInterceptor
from actors.definitions.spec import AgentSpec
from actors.errors import DefinitionError
from actors.errors.user_code import UserFunction, UserResult, in_thread
from actors.interfaces.access import Means, Offload
from actors.interfaces.clock import Clock, WallClock
from actors.interfaces.context import Context
from actors.interfaces.model import Model
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.telemetry import NO_TELEMETRY, Telemetry
from actors.messages.json_types import JsonMapping
from actors.messages.protocol.runs import Paused
from actors.refs import RunnerRef, SessionRef


async def no_logs() -> None:
    """Nothing is captured in this process."""


def unknown_process() -> tuple[str, int]:
    """Nothing is known of the process."""
    return "", 0


def no_file(agent: str) -> str:
    """Return "": agents log where the program does."""
    return ""


async def in_process(function: UserFunction, arguments: JsonMapping, needs: JsonMapping) -> UserResult:
    """Implements `actors.interfaces.context.Offload` with a thread of this process; `needs` are ignored.

    Raises:
        BaseException: whatever the function raises.
    """
    result = await in_thread(function, **arguments)
    return await result if inspect.isawaitable(result) else result


class Toolsets:
    """The toolsets that agents of one process use. This one has none."""

    async def resolved(self, spec: AgentSpec, context: Context, user: object, *, can_wait: bool) -> AgentSpec | Paused:
        """The spec of an LLM agent with tools in place of its toolsets; or Paused, while the user answers what these ask.

        Args:
            context: the run for which they are asked.
            user: has to call `release` when it stops.
            can_wait: the run can pause for the user: it is no round of a flow.

        Raises:
            NotCarriedOverError: a toolset asks the user, and nothing can wait where the agent works.
            DefinitionError: a toolset has answered with something that is no tool, or with a name that is taken.
            Exception: what a toolset raises.
        """
        raise DefinitionError(f"agent {spec.name!r} has toolsets, and nothing opens them here")

    async def release(self, user: object) -> None:
        """Close the toolsets that nothing else uses. What closing raises is logged."""


@dataclass(frozen=True)
class AgentEnvironment:
    """Everything that an agent's actor needs beside its own definition.

    Attributes:
        resolve: returns the model for an agent's name and its model, a name or an object. Raises UnknownModelError.
        offload: runs tools that need resources of their own.
        means: what features reach.
        clock: the time by which supervisors wait.
        interceptors: what features do around the calls of runs, in their order.
        views: the memory for what the agents know of sessions.
        toolsets: those that the agents use.
        threads_left: returns how many threads of this process are left behind in code that has not come back.
        calls_waiting: returns how many calls of models in this process have no connection to their service yet.
        process: where this process is and what it has: the address of its machine, and bytes of memory.
        log_file: gives the file in which this process logs what an agent says; "" for none.
        hand_on_logs: waits a moment, until what agents have logged and printed, and telemetry, has left the process.
        telemetry: learns of model calls and tool calls.
    """

    session: SessionRef
    runner: RunnerRef
    artifacts: ArtifactStore
    resolve: Callable[[str, str | Model], Model]
    offload: Offload = in_process
    means: Means = field(default_factory=dict)
    clock: Clock = field(default_factory=WallClock)
    interceptors: Sequence[type[RunInterceptor]] = ()
    views: ViewMemory = field(default_factory=ViewMemory)
    toolsets: Toolsets = field(default_factory=Toolsets)
    threads_left: Callable[[], int] = int
    calls_waiting: Callable[[], int] = int
    process: Callable[[], tuple[str, int]] = unknown_process
    log_file: Callable[[str], str] = no_file
    hand_on_logs: Callable[[], Awaitable[None]] = no_logs
    telemetry: Telemetry = NO_TELEMETRY


class AgentParts:
    """The definition of one agent, the means of its process, and its model.

    Attributes:
        counts: the figures of the agent's actor.
        interceptors: those that runs of the agent may have.
        ledger: makes what one of them folds of logs; None: none does.
    """

    def __init__(self, spec: AgentSpec, environment: AgentEnvironment) -> None:
        self.spec = spec
        self.environment = environment
        self.interceptors = [each for each in environment.interceptors if each.concerns(spec)]
        self.ledger = next((each.ledger for each in self.interceptors if each.ledger is not None), None)
        self.counts = {"runs": 0, "events": 0, "partials": 0, "llm_calls": 0}

    @cached_property
    def model(self) -> Model:
        """The agent's model. Raises UnknownModelError."""
        return self.environment.resolve(self.spec.name, self.spec.model)

    async def aclose(self) -> None:
        """Close the connections of the model and of toolsets."""
        close = getattr(vars(self).get("model"), "aclose", None)
        if close is not None:
            await close()
        await self.environment.toolsets.release(self)

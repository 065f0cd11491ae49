"""Agents that leave everything with a stored name in a store: see older_store_program.py.

They use the public API alone, so that any commit can run them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pydantic

from actors import (
    AgentTool,
    BaseAgent,
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    EventActions,
    Flow,
    FlowAgent,
    InvocationContext,
    LlmAgent,
    LlmResponse,
    LoopAgent,
    ParallelAgent,
    Part,
    Plugin,
    SequentialAgent,
    Supervision,
    Task,
    ToolContext,
    create_tasks,
    tool,
)
from actors.errors import ModelServiceError
from actors.messages.event import Usage
from actors.testing import PatternModel
from runtime import Runtime

APP = "older"
STOPS_AT = "RAYGROVE_TEST_STOPS_AT"
"""Environment variable: a pipe. Where it is set, `hold` writes to it and never returns; elsewhere it returns at once."""


@tool
async def look_up(order: str, tool_context: ToolContext) -> dict[str, str]:
    """Look an order up: writes state of every scope, and an artifact."""
    for key in ("orders", "user:orders", "app:orders", "temp:orders"):
        tool_context.state[key] = tool_context.state.get(key, 0) + 1
    await tool_context.save_artifact("receipt.txt", Part(text=f"order {order}"))
    await tool_context.save_artifact("user:profile.txt", Part(text="likes tea"))
    return {"order": order, "status": "late"}


@tool(long_running=True)
def ask_manager(amount: int) -> None:
    """Ask a manager, who answers in a later turn."""


@tool(long_running=True)
def ask_clerk() -> dict[str, str]:
    """Ask a clerk, who answers in a later turn; says so at once."""
    return {"status": "pending"}


@tool(require_confirmation=True)
def pay(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pay, when the user has confirmed it."""
    tool_context.state["paid"] = amount
    return {"receipt": amount}


async def reached() -> None:
    """Never return while the store is written; later return at once."""
    pipe = os.environ.get(STOPS_AT)
    if pipe is not None:
        await asyncio.to_thread(Path(pipe).write_text, "here")
        await asyncio.Event().wait()


@tool
async def hold(tool_context: ToolContext, after_steps: int = 0) -> str:
    """Never return while the store is written, once so many steps have been counted; later return the turn's mood."""
    if tool_context.state.get("steps", 0) >= after_steps:
        await reached()
    tool_context.state["held"] = tool_context.state.get("held", 0) + 1
    return f"held, {tool_context.state.get('temp:mood')}"


@tool
def step(tool_context: ToolContext) -> int:
    """Count, in the session's and in the turn's state."""
    for key in ("steps", "temp:steps"):
        tool_context.state[key] = tool_context.state.get(key, 0) + 1
    return int(tool_context.state["steps"])


@tool
def fail() -> None:
    """Fail."""
    raise ValueError("kaput")


@tool
def lead_astray(tool_context: ToolContext) -> str:
    """Set a transfer to an agent that does not exist."""
    tool_context.actions.transfer_to_agent = "nowhere"
    return "go"


class Verdict(pydantic.BaseModel):
    """The answer of an agent with a schema."""

    guilty: bool


class Unsteady(CustomAgent):
    """Counts its runs in state, fails in some of them and holds in others; escalates at the end if it is told to."""

    fails_in: Sequence[int] = ()
    holds_in: Sequence[int] = ()
    escalates: bool = False

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        run = context.state.get(self.name, 0) + 1
        text = Content.of_text(f"run {run}", role="model")
        yield Event(content=text, actions=EventActions(state_delta={self.name: run}), custom_metadata={"run": run})
        if run in self.holds_in:
            await reached()
        if run in self.fails_in:
            raise RuntimeError("unsteady")
        yield Event(content=Content.of_text("steady", role="model"), actions=EventActions(escalate=self.escalates or None))


class Reviewer(CustomAgent):
    """Runs its child, and says how that ended."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        outcome = await context.run_agent("author")
        yield Event(content=Content.of_text(f"the author has {type(outcome).__name__}", role="model"))


class Unstorable(CustomAgent):
    """Yields state that cannot be stored."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(actions=EventActions(state_delta={"bad": object()}))


class Guard(Plugin):
    """Fails at the beginning of a turn whose message asks for it, and counts the others in state."""

    def before_run_callback(self, context: CallbackContext) -> None:
        if context.user_content.text == "break plugin":
            raise PermissionError("not today")
        context.state["turns"] = context.state.get("turns", 0) + 1


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"call": name, "args": args}


def agent(name: str, *replies: tuple[str, Any], default: Any = None, **fields: Any) -> LlmAgent:
    """An LLM agent that answers by patterns; without a pattern that fits, with `default` or its name."""
    return LlmAgent(name=name, model=PatternModel(list(replies), default=default or f"{name} is here"), **fields)


def note_mood(context: CallbackContext) -> None:
    """Leave the turn's mood in the session's state."""
    context.state["mood_at_end"] = context.state.get("temp:mood")


def asker(name: str, **fields: Any) -> LlmAgent:
    """Asks the manager, and says so when it has the answer."""
    replies = ("tool:ask_manager", f"{name} knows")
    return agent(name, replies, default=call("ask_manager", amount=80), tools=[ask_manager], **fields)


def holder(name: str, after_steps: int = 0) -> LlmAgent:
    """Counts a step, then calls `hold`, then is done."""
    replies = (("tool:step", call("hold", after_steps=after_steps)), ("tool:hold", f"{name} is done"))
    return agent(name, *replies, default=call("step"), tools=[step, hold])


def finisher(name: str, task: str, result: Any, **fields: Any) -> LlmAgent:
    return agent(name, default=call(f"succeed_{task}", result=result), **fields)


def report() -> Flow:
    """A flow that pauses in its second task, and has a label as the result of its third."""
    find = agent("researcher", ("tool:ask_manager", call("succeed_facts", result="Paris")), default=call("ask_manager", amount=1))
    tasks = [
        Task("Plan.", name="plan", agents=[finisher("editor", "plan", {"guilty": False})], result_type=Verdict),
        Task("Find facts.", name="facts", agents=[find], depends_on=["plan"], tools=[ask_manager]),
        Task("Judge.", name="judge", agents=[finisher("judge", "judge", 1)], depends_on=["facts"], result_type=["bad", "good"]),
    ]
    return Flow(tasks, name="report")


def works() -> Flow:
    """A flow whose first agent makes tasks, one of which fails and has another one skipped."""
    made = [
        {"name": "measure", "objective": "Measure.", "agents": ["apprentice"]},
        {"name": "choose", "objective": "Choose.", "agents": ["painter"], "labels": ["white", "green"]},
        {"name": "paint", "objective": "Paint.", "agents": ["painter"], "depends_on": ["measure"]},
    ]
    replies = ("tool:create_tasks", call("succeed_renovate", result="as far as it goes"))
    planner = agent("planner", replies, default=call("create_tasks", tasks=made, part_of="renovate"), tools=[create_tasks])
    apprentice = agent("apprentice", default=call("fail_measure", reason="no ruler"))
    painter = finisher("painter", "choose", 1)
    renovate = Task("Renovate.", name="renovate", agents=[planner], on_failed_dependency="run")
    return Flow([renovate], agents=[planner, apprentice, painter], name="works")


def digging() -> Flow:
    """A flow whose second task holds."""
    digger = agent("digger", ("tool:hold", call("succeed_second", result="gold")), default=call("hold"), tools=[hold])
    first = Task("First.", name="first", agents=[finisher("scout", "first", "here")])
    return Flow([first, Task("Second.", name="second", agents=[digger], depends_on=["first"])], name="digging")


def errand() -> Flow:
    """A flow beside the tree, done by agents of it; it pauses in its second task."""
    plan = Task("Plan.", name="plan", agents=["editor"], result_type=Verdict)
    return Flow(
        [plan, Task("Find.", name="facts", agents=["researcher"], depends_on=["plan"], tools=[ask_manager])], name="errand"
    )


def endless() -> Flow:
    """A flow that needs more rounds than it may have."""
    return Flow([Task("Never.", name="never", agents=[agent("idler")])], name="endless", max_rounds=2)


def workflows() -> list[BaseAgent]:
    """Workflow agents, supervised ones among them, with children that pause, hold and fail."""
    for_ever = Supervision(strategy="restart", max_restarts=3, backoff_s=0, within_s=1e10)
    once_more, skip = Supervision(strategy="restart", max_restarts=2, backoff_s=0), Supervision(strategy="skip")
    return [
        LoopAgent(name="rounds", max_iterations=2, sub_agents=[agent("opener"), asker("loop_asker"), agent("closer")]),
        ParallelAgent(name="sides", sub_agents=[agent("left"), asker("right"), asker("middle")]),
        LoopAgent(name="held_rounds", max_iterations=2, sub_agents=[agent("herald"), holder("loop_holder", after_steps=2)]),
        ParallelAgent(name="held_sides", sub_agents=[agent("quick"), holder("slow")]),
        SequentialAgent(
            name="held_restarts", supervision=once_more, sub_agents=[Unsteady(name="shaky", fails_in=[1]), holder("last")]
        ),
        SequentialAgent(
            name="held_again", supervision=for_ever, sub_agents=[Unsteady(name="brittle", fails_in=[1, 3], holds_in=[2])]
        ),
        ParallelAgent(
            name="held_skips", supervision=skip, sub_agents=[Unsteady(name="flop", fails_in=range(1, 9)), holder("kept")]
        ),
        SequentialAgent(
            name="restarts", supervision=once_more, sub_agents=[Unsteady(name="patient", fails_in=[1, 2]), agent("nurse")]
        ),
        SequentialAgent(
            name="skips", supervision=skip, sub_agents=[Unsteady(name="skipped", fails_in=range(1, 9)), agent("next_one")]
        ),
        SequentialAgent(name="gives_up", supervision=once_more, sub_agents=[Unsteady(name="hopeless", fails_in=range(1, 9))]),
        LoopAgent(name="until_escalated", sub_agents=[Unsteady(name="leaver", escalates=True)]),
        Reviewer(name="reviewer", sub_agents=[agent("author")]),
    ]


def breakers() -> list[BaseAgent]:
    """Agents that fail, each in another way. None of them keeps the conversation."""
    alone: dict[str, Any] = {"disallow_transfer_to_parent": True, "disallow_transfer_to_peers": True}
    return [
        Unsteady(name="agent_breaker", fails_in=range(1, 99)),
        Unstorable(name="store_breaker"),
        agent("model_breaker", default=ModelServiceError("pattern", 503, "overloaded"), **alone),
        agent("template_breaker", instruction="Be {mood}.", **alone),
        agent("schema_breaker", default="guilty as charged", output_schema=Verdict, **alone),
        agent("target_breaker", default=call("lead_astray"), tools=[lead_astray], **alone),
        agent("limit_breaker", ("tool:step", call("step")), default=call("step"), tools=[step], **alone),
        agent("tool_breaker", ("tool:fail", "the tool has failed"), default=call("fail"), tools=[fail], **alone),
        FlowAgent(endless(), name="flow_breaker"),
    ]


def tree() -> LlmAgent:
    """All agents below one that hands over to the agent that a message names: `to <agent>`."""
    expert = agent("expert", default="42", description="Knows numbers.")
    below: list[BaseAgent] = [
        asker("refunds", after_agent_callback=note_mood),
        holder("keeper"),
        agent("clerk", ("tool:ask_clerk.*pending", "the clerk is asked"), default=call("ask_clerk"), tools=[ask_clerk]),
        agent("cashier", default=call("pay", amount=5), tools=[pay]),
        *workflows(),
        *breakers(),
        *(FlowAgent(flow) for flow in (report(), works(), digging())),
    ]
    thinks = {"parts": [{"thought": "a greeting"}, "hello"]}
    counted = LlmResponse(
        content=Content.of_text("counted", role="model"),
        finish_reason="STOP",
        usage=Usage(prompt_token_count=3, candidates_token_count=4, total_token_count=7),
        custom_metadata={"region": "europe"},
    )
    replies: list[tuple[str, Any]] = [(f"^to {each.name}$", {"transfer": each.name}) for each in below]
    replies += [("^order", call("look_up", order="42")), ("tool:look_up", "it is late"), ("^hello", thinks), ("^count", counted)]
    replies += [("^number", call("expert", request="which number?")), ("tool:expert", "it is 42")]
    return agent("desk", *replies, tools=[look_up, AgentTool(expert)], sub_agents=below, output_key="said")


def runtime(folder: Path, engine: Literal["ray", "local"] = "local") -> Runtime:
    """The deployment whose stores lie in the folder."""
    return Runtime(
        tree(),
        app_name=APP,
        engine=engine,
        session_store=f"sqlite:///{folder}/sessions.db",
        artifact_store=f"file://{folder}/artifacts",
        plugins=[Guard()],
    )

"""The agents of errands. What their models answer follows from what they are shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from actors import (
    AgentTool,
    BaseAgent,
    Content,
    CustomAgent,
    Event,
    FunctionCall,
    FunctionTool,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    ParallelAgent,
    Part,
    SequentialAgent,
    ToolContext,
)
from actors.messages.config import Background
from tests.simulation.agents import ask, under_way
from tests.simulation.background.errands import Doing, Errands, Hand, Talker, check_balance
from tests.simulation.scripts import ScriptError
from tests.support.models.metered_model import tokens_of

LAST = "do last"
"""Asks for a turn in which all is read that still waits."""


class Hearing(msgspec.Struct, eq=False):
    """What one run of a talker's code has heard. `is_over`: it has come to its end."""

    session: str
    turn: str
    agent: str
    texts: list[str] = []
    is_over: bool = False


HEARINGS: list[Hearing] = []
"""Those of the simulation that runs now."""


class HandModel:
    """Takes the step of an agent's script that follows from how often it has spoken since it was asked."""

    def __init__(self, hand: Hand) -> None:
        self._hand = hand

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        if self._hand.thinks_s:
            await asyncio.sleep(self._hand.thinks_s)
        yield LlmResponse(content=Content(role="model", parts=[self._part(request)]), usage=tokens_of(request))

    def _part(self, request: LlmRequest) -> Part:
        contents = _since_asked(request.contents)
        spoken = sum(each.role == "model" for each in contents)
        steps = self._hand.steps
        if contents and contents[0].text == LAST:
            steps = [step for step in steps if step.does == "hand"]
        if spoken >= len(steps):
            return Part(text=f"{self._hand.name} says {spoken}")
        step = steps[spoken]
        if step.does == "fail":
            raise ScriptError(self._hand.name)
        return Part(function_call=_call(step, spoken, _runs_in(contents)))


def _since_asked(contents: Sequence[Content]) -> Sequence[Content]:
    """The contents from the last one on with which a program or another agent has asked for something."""
    for place in range(len(contents) - 1, -1, -1):
        if contents[place].role == "user" and contents[place].text.startswith(("do ", "go ")):
            return contents[place:]
    return contents


def _runs_in(contents: Sequence[Content]) -> Sequence[str]:
    """The runs that it has started."""
    responses = [each.response for content in contents for each in content.function_responses()]
    return [str(each["run"]) for each in responses if each.get("status") == "running" and len(each) == 2]


def _call(step: Doing, spoken: int, runs: Sequence[str]) -> FunctionCall:
    run = runs[step.nth % len(runs)] if runs else "none"
    match step.does:
        case "start":
            return FunctionCall(name=step.to, args={"request": f"go {spoken}"})
        case "wait":
            return FunctionCall(name="wait_for_runs", args={"timeout_s": step.takes_s})
        case "check":
            return FunctionCall(name="check_run", args={"run": run})
        case "steer":
            return FunctionCall(name="steer_run", args={"run": run, "message": f"mind {spoken}"})
        case "cancel":
            return FunctionCall(name="cancel_run", args={"run": run})
        case "ask":
            return FunctionCall(name="ask")
        case "hand":
            return FunctionCall(name="transfer_to_agent", args={"agent_name": step.to})
    return FunctionCall(name="work", args={"s": step.takes_s})


async def work(s: float, tool_context: ToolContext) -> str:
    """Work for a while."""
    with under_way(tool_context.function_call_id):
        await asyncio.sleep(s)
    return "done"


class SendsAndHears(CustomAgent):
    """Sends others messages, and says what it hears."""

    steps: Sequence[Doing]

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        heard = Hearing(context.session_id, context.invocation_id, self.name)
        HEARINGS.append(heard)
        if context.user_content.text == LAST:
            while received := await context.steering():
                for each in received:
                    heard.texts.append(each.text)
                    yield _said(f"{self.name} heard {each.text}")
        else:
            for number, step in enumerate(self.steps):
                match step.does:
                    case "send":
                        await context.send(step.to, f"{context.invocation_id}: {self.name} to {step.to}, {number:03}")
                    case "hear":
                        text = (await context.next_message()).text
                        heard.texts.append(text)
                        yield _said(f"{self.name} heard {text}")
                    case "start":
                        await context.start(step.to, f"go {number}", background=Background(on_done=step.on_done))
                    case _:
                        await asyncio.sleep(step.takes_s)
                        yield _said(f"{self.name} has done {number}")
        heard.is_over = True


def _said(text: str) -> Event:
    return Event(content=Content.of_text(text, role="model"))


def staff(given: Errands) -> BaseAgent:
    """The root, with all below it."""
    agents: list[BaseAgent] = []
    if given.desk:
        check_balance(given.desk)
        kind = ParallelAgent if given.beside else SequentialAgent
        agents.append(kind(name="desk", sub_agents=_talkers(given.desk)))
    if given.has_clerk:
        agents.append(LlmAgent(name="clerk", description="reads", model=HandModel(Hand(name="clerk"))))
    return _hand(given.chief, agents)


def _talkers(talkers: Sequence[Talker]) -> list[BaseAgent]:
    return [SendsAndHears(name=each.name, steps=each.steps) for each in talkers]


def _hand(hand: Hand, below: Sequence[BaseAgent] = ()) -> BaseAgent:
    if hand.pair:
        check_balance(hand.pair)
        return ParallelAgent(name=hand.name, description="talks", sub_agents=_talkers(hand.pair))
    helpers = [AgentTool(_hand(each), background=Background(on_done=each.on_done)) for each in hand.helpers]
    tools = [FunctionTool(work), LongRunningFunctionTool(ask), *helpers]
    return LlmAgent(name=hand.name, description="works", model=HandModel(hand), sub_agents=[*below], tools=tools)

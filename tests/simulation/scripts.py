"""What the scripted models of a scenario answer: it follows from what they are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec

from actors import Content, FunctionCall, LlmRequest, Part, Usage
from tests.simulation.scenarios import Node, Step
from tests.support.models.metered_model import tokens_of

QUOTED = "For context:"
"""The first part of what a model is shown of other agents."""

ANSWERED = "[user] `"
"""Begins what it is shown of the user's answer to another agent."""


class ScriptError(Exception):
    """The step of a script is that the model fails."""


MARKS = re.compile(r"<<.*?>>|\"\w+\"|^- \w+|parent agent, `\w+`", re.MULTILINE)
"""What is looked at in an instruction: what it is told of the state, who it is, and to whom it may hand over."""


def digest(request: LlmRequest) -> str:
    """What the model of an agent is told beside the conversation."""
    fields = [(tool.parameters or {})["properties"] for tool in request.tools if tool.name == "transfer_to_agent"]
    menus = [each["agent_name"]["enum"] for each in fields]
    return described(MARKS.findall(request.system_instruction), len(request.tools), menus[0] if menus else ())


def usage(node: Node, contents: Sequence[Content]) -> Usage:
    """The tokens of a call; those of tools are counted where agents have manners."""
    used = tokens_of(LlmRequest(contents=list(contents)))
    return msgspec.structs.replace(used, tool_use_prompt_token_count=5) if node.manners else used


def described(marks: Sequence[str], tools: int, targets: Sequence[str]) -> str:
    """The same in words."""
    return f"told {' '.join(marks)} with {tools} tools for {' '.join(targets)}"


def scripted(node: Node, contents: Sequence[Content], *, ends: bool = False, told: str = "") -> list[Part]:
    """The step of an agent's script that follows from how often it has spoken since the user's last message.

    Args:
        contents: of its request.
        ends: it is to end now.
        told: what it is told beside them.

    Raises:
        ScriptError: the step is to fail.
    """
    since = _since_user(contents)
    spoken = sum(content.role == "model" for content in since)
    asked = contents[-1 - len(since)].text if len(since) < len(contents) else ""
    steps = node.odd if node.odd and asked[-1:] in "13579" else node.steps
    step = steps[spoken] if spoken < len(steps) and not ends else Step()
    parts = _parts(node.name, step, spoken, seen=sum(len(content.parts) for content in contents))
    if step.does != "say":
        return parts
    text = " ".join(filter(None, (parts[0].text, told if node.told else "")))
    return [Part(text=json.dumps([text]) if "lists" in node.manners else text)]


def _parts(name: str, step: Step, spoken: int, seen: int) -> list[Part]:
    if step.does == "say":
        return [Part(text=f"{name} says {spoken}, having seen {seen}")]
    if step.does == "murmur":
        work = FunctionCall(name="work", args={"key": f"{name}_{spoken}_0", "s": step.takes_s})
        return [Part(text=f"{name} works"), Part(function_call=work)]
    if step.does == "fail":
        raise ScriptError(name)
    calls = {
        "work": [FunctionCall(name="work", args={"key": f"{name}_{spoken}_{n}", "s": step.takes_s}) for n in range(step.often)],
        "trickle": [
            FunctionCall(name="work", args={"key": f"{name}_{spoken}_{n}", "s": step.takes_s * (n + 1)})
            for n in range(step.often)
        ],
        "experts": [
            *(FunctionCall(name=to, args={"request": f"{name} asks {spoken}"}) for to in step.to.split()),
            FunctionCall(name="work", args={"key": f"{name}_{spoken}", "s": step.takes_s}),
        ],
        "ask": [FunctionCall(name="ask")],
        "confirm": [FunctionCall(name="confirm", args={"key": f"{name}_{spoken}"})],
        "expert": [FunctionCall(name=step.to, args={"request": f"{name} asks {spoken}"})],
        "transfer": [FunctionCall(name="transfer_to_agent", args={"agent_name": step.to})],
        "hand": [FunctionCall(name="ask"), FunctionCall(name="transfer_to_agent", args={"agent_name": step.to})],
        "exit": [FunctionCall(name="exit_loop")],
        "escalate": [FunctionCall(name="escalate")],
        "linger": [FunctionCall(name="linger")],
        "note": [FunctionCall(name="note", args={"key": f"{name}_{spoken}"})],
        "break": [FunctionCall(name="break_down"), FunctionCall(name="work", args={"key": f"{name}_{spoken}_1", "s": 0.0})],
    }[step.does]
    return [Part(function_call=call) for call in calls]


def _since_user(contents: Sequence[Content]) -> Sequence[Content]:
    """The contents after the user's last text. What other agents have said has the user's role, too, and begins with a mark."""
    for place in range(len(contents) - 1, -1, -1):
        texts = [part.text for part in contents[place].parts if part.text]
        if contents[place].role == "user" and texts and texts[0] != QUOTED and not texts[0].startswith(ANSWERED):
            return contents[place + 1 :]
    return contents

"""What the scripted models of a scenario answer: it follows from what they are shown."""

from __future__ import annotations

from collections.abc import Sequence

from actors import Content, FunctionCall, Part
from tests.simulation.scenarios import Node, Step

QUOTED = "For context:"
"""The first part of what a model is shown of other agents."""

ANSWERED = "[user] `"
"""Begins what it is shown of the user's answer to another agent."""


class ScriptError(Exception):
    """The step of a script is that the model fails."""


def scripted(node: Node, contents: Sequence[Content], *, ends: bool = False) -> list[Part]:
    """The step of an agent's script that follows from how often it has spoken since the user's last message.

    Args:
        contents: of its request.
        ends: it is to end now.

    Raises:
        ScriptError: the step is to fail.
    """
    spoken = sum(content.role == "model" for content in _since_user(contents))
    step = node.steps[spoken] if spoken < len(node.steps) and not ends else Step()
    return _parts(node.name, step, spoken, seen=sum(len(content.parts) for content in contents))


def _parts(name: str, step: Step, spoken: int, seen: int) -> list[Part]:
    if step.does == "say":
        return [Part(text=f"{name} says {spoken}, having seen {seen}")]
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
    }[step.does]
    return [Part(function_call=call) for call in calls]


def _since_user(contents: Sequence[Content]) -> Sequence[Content]:
    """The contents after the user's last text. What other agents have said has the user's role, too, and begins with a mark."""
    for place in range(len(contents) - 1, -1, -1):
        texts = [part.text for part in contents[place].parts if part.text]
        if contents[place].role == "user" and texts and texts[0] != QUOTED and not texts[0].startswith(ANSWERED):
            return contents[place + 1 :]
    return contents

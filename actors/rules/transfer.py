"""To whom an LLM agent may hand the conversation (seed 002; semantics.md section 3)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.model import FunctionDeclaration
from actors.messages.topology import AgentNode, Topology
from actors.nearest import did_you_mean

TRANSFER_TOOL = "transfer_to_agent"


class Target(msgspec.Struct, frozen=True):
    """An agent that can take over."""

    name: str
    description: str = ""
    is_parent: bool = False


def transfer_targets(topology: Topology, name: str) -> tuple[Target, ...]:
    """The targets of an agent: its children, its parent, its siblings, as far as each is allowed, in this order."""
    node = topology[name]
    if not node.is_llm:
        return ()
    targets = [_target(topology[child]) for child in node.children]
    parent = topology[node.parent] if node.parent is not None else None
    if parent is not None and parent.is_llm:
        if not node.disallow_transfer_to_parent:
            targets.append(_target(parent, is_parent=True))
        if not node.disallow_transfer_to_peers:
            targets += [_target(topology[peer]) for peer in parent.children if peer != name]
    return tuple(targets)


def _target(node: AgentNode, *, is_parent: bool = False) -> Target:
    return Target(node.name, node.description, is_parent)


def declaration(targets: Sequence[Target]) -> FunctionDeclaration:
    """The tool that the model sees: one required string out of the targets' names."""
    return FunctionDeclaration(
        name=TRANSFER_TOOL,
        description="Hand the conversation over to another agent that is better suited to answer the user.",
        parameters={
            "type": "object",
            "properties": {
                "agent_name": {
                    "type": "string",
                    "description": "Name of the agent that takes over.",
                    "enum": [target.name for target in targets],
                }
            },
            "required": ["agent_name"],
        },
    )


def instruction(targets: Sequence[Target]) -> str:
    """What the system instruction says about transfer; "" without targets."""
    if not targets:
        return ""
    listed = "\n".join("- " + ": ".join(filter(None, (target.name, target.description))) for target in targets)
    names = ", ".join(f"`{target.name}`" for target in targets)
    text = (
        "You work together with other agents. These can take over the conversation:\n"
        f"{listed}\n\n"
        "If you are the best one to answer, answer yourself. If, going by its description, another agent is better placed, "
        f"call `{TRANSFER_TOOL}` with its name and write nothing beside the call.\n"
        f"Valid names are {names}, and no others."
    )
    parent = next((target for target in targets if target.is_parent), None)
    if parent is not None:
        text += f"\nWhen neither you nor another agent of the list fits, hand back to your parent agent, `{parent.name}`."
    return text


def refusal(agent: str, wanted: object, targets: Sequence[Target]) -> str | None:
    """Why the agent cannot transfer to `wanted`, told so that a model can mend it; None when it can."""
    names = [target.name for target in targets]
    if isinstance(wanted, str) and wanted in names:
        return None
    valid = f"Valid targets: {', '.join(names) if names else 'none'}"
    if not isinstance(wanted, str) or not wanted:
        return f"{TRANSFER_TOOL} needs the argument agent_name, a string. {valid}"
    return f"agent {agent!r} cannot transfer to {wanted!r}: no such target.{did_you_mean(wanted, names)} {valid}"


def route_refusal(topology: Topology, wanted: str, scope: str | None) -> str | None:
    """Why the Runner cannot route a turn to `wanted`; None when it can.

    Args:
        scope: the child of a workflow agent, or the agent that is asked as a tool, within which the transfer has to stay.
    """
    if topology.find(wanted) is None:
        return f"no agent of that name is in the tree.{did_you_mean(wanted, [node.name for node in topology.nodes])}"
    if scope is None and topology.is_beside(wanted):
        return "it is used as a tool, and answers only the agents that have it"
    if scope is not None and not topology.is_below(wanted, scope):
        return f"here a transfer stays at or below {scope!r}, which is run by a workflow or asked as a tool"
    return None

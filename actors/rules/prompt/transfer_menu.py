"""What a model sees of the agents to which it may transfer (semantics.md section 3).

Few agents are listed by name. Many can be searched instead, so that requests do not grow with the tree. Which transfers are
valid does not depend on it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from actors.errors.hints import did_you_mean
from actors.messages.llm.model import FunctionDeclaration
from actors.rules.prompt.agent_search import MAX_FOUND, AgentSearch
from actors.rules.routing.transfer import FIND_TOOL, TRANSFER_TOOL, Target

_MAX_NAME = 256
"""Characters of a wrong name that are repeated to the model: no agent has a longer one."""


class TransferMenu:
    """The transfer targets of one agent as its model sees them: listed by name, or found by search.

    Args:
        agent: the agent.
        targets: its targets, in order.
        children: names of its sub-agents. They are listed even when all targets are too many, unless they are too many
            themselves.
        max_listed: the number of targets up to which all are listed.

    Attributes:
        is_listed: the model is given all names; otherwise it gets a tool to find them.
    """

    def __init__(self, agent: str, targets: Sequence[Target], children: Collection[str], max_listed: int) -> None:
        self.is_listed = len(targets) <= max_listed
        self._agent = agent
        self._targets = targets
        near = frozenset(children if len(children) <= max_listed else ())
        self._listed = targets if self.is_listed else [target for target in targets if target.name in near]
        self._names = {target.name: target for target in targets}
        self._parent = next((target for target in targets if target.is_parent), None)

    @cached_property
    def _search(self) -> AgentSearch:
        return AgentSearch(list(self._names), [target.description for target in self._targets])

    def declaration(self) -> FunctionDeclaration:
        """`transfer_to_agent` as the model sees it: one required string, one of the targets' names if they are listed."""
        agent_name: dict[str, object] = {"type": "string", "description": "Name of the agent that takes over."}
        if self.is_listed:
            agent_name["enum"] = list(self._names)
        else:
            agent_name["description"] = f"Name of the agent that takes over, as {FIND_TOOL} tells it."
        return FunctionDeclaration(
            name=TRANSFER_TOOL,
            description="Hand the conversation over to another agent that is better suited to answer the user.",
            parameters={"type": "object", "properties": {"agent_name": agent_name}, "required": ["agent_name"]},
        )

    @cached_property
    def instruction(self) -> str:
        """The part of the system instruction that explains transfer; "" without targets."""
        if not self._targets:
            return ""
        text = self._list() if self.is_listed else self._how_to_search()
        if self._parent is not None:
            other = "another agent of the list" if self.is_listed else "another agent"
            text += f"\nWhen neither you nor {other} fits, hand back to your parent agent, `{self._parent.name}`."
        return text

    def _list(self) -> str:
        names = ", ".join(f"`{name}`" for name in self._names)
        return (
            "You work together with other agents. These can take over the conversation:\n"
            f"{_lines(self._targets)}\n\n"
            "If you are the best one to answer, answer yourself. If, going by its description, another agent is better placed, "
            f"call `{TRANSFER_TOOL}` with its name and write nothing beside the call.\n"
            f"Valid names are {names}, and no others."
        )

    def _how_to_search(self) -> str:
        near = f"These are nearest to you:\n{_lines(self._listed)}\n\n" if self._listed else ""
        return (
            f"You work together with {len(self._targets)} other agents that can take over the conversation, too many to list. "
            f"{near}"
            "If you are the best one to answer, answer yourself. If another agent may be better placed, call "
            f"`{FIND_TOOL}` with words for what is needed: it tells the names and descriptions of the {MAX_FOUND} agents that "
            f"fit best. Then call `{TRANSFER_TOOL}` with the name of one of them and write nothing beside the call.\n"
            f"Valid are only names that you have been told here or by `{FIND_TOOL}`."
        )

    def refusal(self, wanted: object) -> str | None:
        """Why the agent cannot transfer to `wanted`, with the valid targets; None when it can."""
        if isinstance(wanted, str) and wanted in self._names:
            return None
        if self.is_listed:
            valid = f"Valid targets: {', '.join(self._names) if self._names else 'none'}"
        else:
            valid = f"Call {FIND_TOOL} to find valid targets."
        if not isinstance(wanted, str) or not wanted:
            return f"{TRANSFER_TOOL} needs the argument agent_name, a string. {valid}"
        name = wanted if self.is_listed else wanted[:_MAX_NAME]
        return f"agent {self._agent!r} cannot transfer to {name!r}: no such target.{did_you_mean(wanted, self._names)} {valid}"

    def find(self, question: str) -> list[Target]:
        """The targets that fit some words best, the best first, at most ten."""
        return [self._targets[index] for index in self._search.find(question)]


def find_agents_declaration() -> FunctionDeclaration:
    """`find_agents` as the model sees it: one required string, `query`."""
    return FunctionDeclaration(
        name=FIND_TOOL,
        description=f"Find agents that can take over the conversation: names and descriptions of the {MAX_FOUND} that fit best.",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words for what the agent has to know or do, or a part of its name."}
            },
            "required": ["query"],
        },
    )


def _lines(targets: Sequence[Target]) -> str:
    return "\n".join("- " + ": ".join(filter(None, (target.name, target.description))) for target in targets)

"""How the fields of a definition are given, by name and once, and what is said where a program expects otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Never

from actors.definitions.tools.base import Tool
from actors.definitions.tools.toolset import Toolset
from actors.errors import AgentTreeError, DefinitionError
from actors.messages.event import USER
from actors.messages.shown import shown
from actors.rules.checks.ids import MAX_ID

_RUN = "agents are run by a Runtime: rt.run(…); a CustomAgent runs its children by await context.run_agent(name)"
_PLACE = "a definition does not know its place in a tree: AgentTree(root).topology has it, and rt.tree() of a deployed tree"
_FIND = "AgentTree(root).find(name) finds a definition below a root, and rt.find_agents(…) agents of a deployed tree"

NOT_OF_AGENTS: Mapping[str, str] = {
    "parent_agent": _PLACE,
    "root_agent": _PLACE,
    "find_agent": _FIND,
    "find_sub_agent": _FIND,
    "clone": 'agent.model_copy(update={"name": …}) makes another agent with other fields',
    "run_async": _RUN,
    "run_live": _RUN,
}
"""What ADK's agents have and these have not, and what to do instead."""

_CHANGES = frozenset({"append", "extend", "insert", "remove", "pop", "clear"})


class ToolTuple(tuple[Tool | Toolset, ...]):
    """The tools of an agent, in order. They cannot be changed, and say so."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Never:
        if name in _CHANGES:
            raise AttributeError(
                f"tools.{name}: an agent is fixed when it is defined, for its actor gets a copy of it. Another agent with more "
                "tools is agent.model_copy(update={'tools': [*agent.tools, …]})"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def refuse_unnamed(kind: type, unnamed: Sequence[object], first: str) -> None:
    """Check that no field was given by its place alone. Raises DefinitionError, with the field that was probably meant."""
    if unnamed:
        raise DefinitionError(
            f"{kind.__name__} takes its fields by name: write {kind.__name__}({first}={shown(unnamed[0])}, …) "
            f"instead of {kind.__name__}({shown(unnamed[0])}, …)"
        )


def refuse_change(agent: str, field: str) -> Never:
    """Say that a field of an agent cannot be set. Raises DefinitionError."""
    raise DefinitionError(
        f"agent {agent!r} is fixed when it is defined, for its actor gets a copy of it: {field} cannot be set. "
        f"agent.model_copy(update={{{field!r}: …}}) makes another agent"
    )


def check_agent_name(name: str) -> None:
    """Check the name of an agent. Raises AgentTreeError."""
    if name == USER:
        raise AgentTreeError(f"an agent is called {name!r}, which is the author of the user's messages")
    if not name.isidentifier():
        raise AgentTreeError(f"{name!r} is no identifier: use letters, digits and underscores, and no digit first")
    if len(name) > MAX_ID:
        raise AgentTreeError(f"the name {name[:20]!r}… has {len(name)} characters: use {MAX_ID} at most")

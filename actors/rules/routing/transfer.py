"""Which agents an LLM agent may transfer the turn to, and how its model sees them (semantics.md section 3).

Few agents are listed by name. Many can be searched instead, so that requests do not grow with the tree. Which transfers are valid
does not depend on it. The search is that of `find_agents` and `find_tools`:

- Words are compared with names and descriptions. A whole word scores more than a part of one, and a part more than a common
  beginning, by which "refunds" finds "refund".
- A name scores more than a description, and a word that few agents have more than one that many have.
- Agents with the same score keep their order, so the same question always gets the same answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import chain

import msgspec

from actors.errors.hints import did_you_mean
from actors.messages.llm import FunctionDeclaration
from actors.messages.topology import AgentNode, Topology

TRANSFER_TOOL = "transfer_to_agent"
FIND_TOOL = "find_agents"


class Target(msgspec.Struct, frozen=True, gc=False):
    """An agent that a turn can be transferred to."""

    name: str
    description: str = ""
    is_parent: bool = False


def transfer_targets(topology: Topology, name: str) -> tuple[Target, ...]:
    """The targets of an agent, in this order: its children, its parent, its siblings, each only if it is allowed.

    A delegate is no target, and has none above it.
    """
    node = topology[name]
    if not node.is_llm:
        return ()
    targets = [_target(topology[child]) for child in node.children if child not in node.delegates]
    parent = topology[node.parent] if node.parent is not None else None
    if parent is not None and parent.is_llm and name not in parent.delegates:
        if not node.disallow_transfer_to_parent:
            targets.append(_target(parent, is_parent=True))
        if not node.disallow_transfer_to_peers:
            targets += [_target(topology[peer]) for peer in parent.children if peer != name and peer not in parent.delegates]
    return tuple(targets)


def _target(node: AgentNode, *, is_parent: bool = False) -> Target:
    return Target(node.name, node.description, is_parent)


def route_refusal(topology: Topology, wanted: str, scope: str | None) -> str | None:
    """Why the Runner cannot route a turn to `wanted`; None when it can.

    Args:
        scope: the child of a workflow agent, or the agent that runs as a tool; a transfer has to stay at or below it.
    """
    if topology.find(wanted) is None:
        return f"no agent of that name is in the tree.{did_you_mean(wanted, topology.names())}"
    if scope is None and topology.is_beside(wanted):
        return "it is used as a tool, and answers only the agents that have it"
    if scope is not None and not topology.is_below(wanted, scope):
        return f"here a transfer stays at or below {scope!r}, which is run by a workflow or asked as a tool"
    for node in topology.lineage(wanted):
        if node.name == scope:
            break
        if topology.is_delegate(node.name):
            return f"{node.name!r} works for the calls of {node.parent!r}, and takes no conversation over"
    return None


MAX_FOUND = 10
"""Agents that a search returns."""

MAX_WORDS = 32
"""Words of a question that are looked for."""

_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_WHOLE, _PART, _BEGINNING = 1.0, 0.5, 0.25
_IN_NAME, _IN_DESCRIPTION = 2.0, 1.0


class AgentSearch:
    """Finds agents by words.

    Args:
        names: the agents' names.
        descriptions: their descriptions, in the same order.
    """

    def __init__(self, names: Sequence[str], descriptions: Sequence[str]) -> None:
        self._names = names
        # Between spaces, so that a whole word differs from a part of one.
        self._texts = ([_spaced(name) for name in names], [_spaced(each) for each in descriptions])

    def find(self, question: str, limit: int = MAX_FOUND) -> list[int]:
        """Indexes of the agents that fit best, the best first. One whose name is the question comes before all others."""
        found = [hits for word in list(dict.fromkeys(words(question)))[:MAX_WORDS] if (hits := self._hits(word))]
        # Compared with the agents that fit any word: agents that fit none change nothing for the others.
        fitting = len(set().union(*found))
        scores: dict[int, float] = {}
        for hits in found:
            weight = math.log(1 + fitting / len(hits))
            for index, hit in hits.items():
                scores[index] = scores.get(index, 0.0) + weight * hit
        wanted = question.strip()
        folded = wanted.casefold()
        named = {index: 1 + (name == wanted) for index, name in enumerate(self._names) if name.casefold() == folded}
        ranked = sorted({*scores, *named}, key=lambda index: (-named.get(index, 0), -scores.get(index, 0.0), index))
        return ranked[:limit]

    def _hits(self, word: str) -> dict[int, float]:
        """The score of a word for each agent that it fits, by index."""
        whole = f" {word} "
        # One or two Latin letters are a part of almost every text, and a number is no part of another number.
        part = whole if word.isdigit() or (len(word) < 3 and word.isascii()) else word
        beginning = f" {word[: math.ceil(0.7 * len(word))]}" if len(word) > 3 and not word.isdigit() else part
        hits: dict[int, float] = {}
        for texts, field in zip(self._texts, (_IN_NAME, _IN_DESCRIPTION), strict=True):
            for index, text in enumerate(texts):
                if part in text:
                    hits[index] = hits.get(index, 0.0) + field * (_WHOLE if whole in text else _PART)
                elif beginning in text:
                    hits[index] = hits.get(index, 0.0) + field * _BEGINNING
        return hits


def words(text: str) -> list[str]:
    """The words of a text or a name, case folded: `RefundClerk_2` has three."""
    return [word.casefold() for word in _WORD.findall(_HUMP.sub(" ", text))]


def _spaced(text: str) -> str:
    return " ".join(chain([""], words(text), [""]))


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

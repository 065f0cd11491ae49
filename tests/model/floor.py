"""1. Agent selection: the agent that gets the next message."""

from __future__ import annotations

from collections.abc import Sequence

from actors import Event
from tests.model.said import Tree


def selected(tree: Tree, log: Sequence[Event], message: Event) -> str:
    """The agent that gets a message.

    1.1: function responses go to the agent that made the call that the first one answers, unless it is a tool of others. One to
    no call is refused. 1.2: any other message goes to the newest author that is transferable. 1.4: else the root gets it.
    1.5: a message that is addressed goes to that agent.
    """
    if (addressed := (message.custom_metadata or {}).get("raygrove:agent")) and not any(message.function_responses()):
        return str(addressed)
    for response in message.function_responses():
        callers = (event.author for event in reversed(log) if any(call.id == response.id for call in event.function_calls()))
        if not tree.is_tool(caller := next(callers, "")):
            return caller
        break
    return next((event.author for event in reversed(log) if is_transferable(tree, event.author)), tree.root.name)


def is_transferable(tree: Tree, author: str) -> bool:
    """1.3: it, and every agent above it up to and including the root, is an LLM agent. A tool of others is none."""
    while (node := tree.nodes.get(author)) is not None and node.kind == "llm" and "stays" not in node.manners:
        if node is tree.root:
            return True
        author = tree.parents[author].name if author in tree.parents else ""
    return False

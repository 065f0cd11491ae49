"""The tools of an LLM agent by name, and what is to be known of all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.definitions.tools.base import Tool


class OwnTools:
    """Tools by name. What runs ask of all of them is found once, and not in every run.

    Args:
        by_name: the tools.

    Attributes:
        by_name: the same.
        changing: those that change the requests of models.
        hidden: the names of those that others show models when these ask for them.
        may_wait: a call of one of them can wait for the user.
    """

    __slots__ = ("by_name", "changing", "hidden", "may_wait")

    def __init__(self, by_name: Mapping[str, Tool]) -> None:
        tools = by_name.values()
        self.by_name = by_name
        self.changing = [tool for tool in tools if type(tool).process_request is not Tool.process_request]
        self.hidden = frozenset(name for tool in tools for name in tool.hides)
        self.may_wait = may_wait(tools)


def may_wait(tools: Iterable[Tool]) -> bool:
    """True when a call of one of them can wait for the user."""
    return any(tool.is_long_running or tool.require_confirmation for tool in tools)

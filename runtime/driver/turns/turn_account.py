"""What a turn's events tell of it: what each agent has done, which tools have not answered, and where code has failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from actors.messages.content import FunctionCall
from actors.messages.event import USER, Event, Usage
from runtime.driver.turns.turn_description import AgentShare, OpenToolCall


class TurnAccount:
    """Takes in the events of a turn, oldest first.

    Attributes:
        message: the text that began the turn.
        traceback: of the failure with which its log ends; "" where it does not end with one, or no code has failed.
    """

    def __init__(self) -> None:
        self.message = ""
        self.traceback = ""
        self._shares: dict[str, AgentShare] = {}
        self._open: dict[str, OpenToolCall] = {}
        self._has_begun = False

    def add_all(self, events: Iterable[Event]) -> None:
        """Take in events."""
        for event in events:
            self._add(event)

    def _add(self, event: Event) -> None:
        for response in event.function_responses():
            self._open.pop(response.id or "", None)
        self.traceback = event.error_traceback or "" if event.error_code else ""
        if event.author == USER:
            if not self._has_begun:
                self._has_begun, self.message = True, event.text
            return
        # An agent that speaks as a tool has a mark before its name.
        agent = event.author.lstrip("@")
        calls = list(event.function_calls())
        share = self._shares.get(agent) or AgentShare(agent=agent, first_s=event.timestamp)
        self._shares[agent] = msgspec.structs.replace(
            share,
            events=share.events + 1,
            tool_calls=share.tool_calls + len(calls),
            failed_tools=share.failed_tools + sum(set(each.response) == {"error"} for each in event.function_responses()),
            usage=added(share.usage, event.usage) if event.usage is not None else share.usage,
            last_s=event.timestamp,
        )
        self._open.update((call.id or "", _open(event, agent, call)) for call in calls)

    @property
    def agents(self) -> Sequence[AgentShare]:
        """The share of each agent, in the order of their first events."""
        return list(self._shares.values())

    @property
    def usage(self) -> Usage:
        """Tokens of all agents."""
        total = Usage()
        for share in self._shares.values():
            total = added(total, share.usage)
        return total

    @property
    def open_calls(self) -> Sequence[OpenToolCall]:
        """The calls that have no response, oldest first."""
        return list(self._open.values())


def added(one: Usage, other: Usage) -> Usage:
    """The sum of tokens; what neither tells stays untold."""
    fields = Usage.__struct_fields__
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in fields)
    return Usage(**{name: (first or 0) + (second or 0) for name, first, second in pairs if (first, second) != (None, None)})


def _open(event: Event, agent: str, call: FunctionCall) -> OpenToolCall:
    return OpenToolCall(
        call_id=call.id or "", name=call.name, args=call.args, agent=agent, seq=event.seq, called_s=event.timestamp
    )

"""Why the messages of a turn went to the agents that got them, as the log and the rules tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Literal

import msgspec

from actors.messages import protocol as p
from actors.messages.event import ADDRESSED, USER, Event, decode_event
from actors.messages.graph import node_at
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.messages.turn_info import PassedOver, TurnInfo
from actors.refs import SessionRef
from actors.rules.routing.branches import speaker
from actors.rules.routing.selection import may_answer_for, obstacle, selectable


class SelectionReason(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, repr_omit_defaults=True):
    """Why a message of a user went to an agent (semantics.md section 1).

    Attributes:
        seq: position of the message.
        agent: the agent, as the tree is now.
        because: the message answers a call of the agent ("answers"), is for a run of it that waits for the user's words
            ("awaited"), or is addressed to it ("addressed"); the message began a flow ("flow"); the agent spoke last of those
            that may ("spoke"); none of them has spoken, so it is the root ("root").
        passed_over: the agents that spoke more recently, the most recent first.
    """

    seq: int
    agent: str
    because: Literal["answers", "awaited", "addressed", "flow", "spoke", "root"]
    call_id: str = ""
    passed_over: tuple[PassedOver, ...] = ()


PAGE = 500
"""Events that are read at once."""


async def reasons_of(session: SessionRef, key: SessionKey, turn: TurnInfo, topology: Topology) -> list[SelectionReason]:
    """The reason for each message of a user in a turn: the one that began it, and those that answered what it waited for.

    Raises:
        SessionNotFoundError, StoreError: the log cannot be read.
    """
    if not turn.first_seq:
        return []
    found: list[SelectionReason] = []
    callers: dict[str, str] = {}
    async for event in _events(session, key, turn.first_seq - 1, turn.last_seq):
        if event.invocation_id != turn.invocation_id:
            continue
        if event.author == USER and not event.steers:
            found.append(await _reason(session, key, event, callers, topology))
        callers.update((call.id, event.author) for call in event.function_calls() if call.id)
    return found


async def _reason(
    session: SessionRef, key: SessionKey, message: Event, callers: dict[str, str], topology: Topology
) -> SelectionReason:
    if message.flow is not None:
        return SelectionReason(seq=message.seq, agent=topology.root.name, because="flow")
    if message.node_info is not None:
        return SelectionReason(seq=message.seq, agent=node_at(message.node_info.path), because="awaited")
    addressed = str((message.custom_metadata or {}).get(ADDRESSED, ""))
    call_id = next((response.id for response in message.function_responses() if response.id), "")
    if addressed and not call_id:
        return SelectionReason(seq=message.seq, agent=addressed, because="addressed")
    authors = await _authors(session, key, message.seq, topology)
    return explain(topology, authors, message.seq, callers.get(call_id, ""), call_id)


async def _authors(session: SessionRef, key: SessionKey, before_seq: int, topology: Topology) -> list[str]:
    """The authors before a message, the most recent first and each once, up to the first that may keep the conversation."""
    found: dict[str, None] = {}
    while before_seq > 1:
        page = await session.ask(p.ReadLog(key=key, after_seq=0, before_seq=before_seq, limit=PAGE, newest_first=True))
        events = [decode_event(stored.raw, stored.seq) for stored in page.events]
        found.update(dict.fromkeys(selectable(speaker(event.author, event.branch) for event in events)))
        if not events or not page.more or any(is_transferable(topology, name) for name in found):
            break
        before_seq = events[-1].seq
    return _until_decided(found, topology)


def _until_decided(authors: Iterable[str], topology: Topology) -> list[str]:
    found = []
    for author in authors:
        found.append(author)
        if is_transferable(topology, author):
            break
    return found


async def _events(session: SessionRef, key: SessionKey, after_seq: int, last_seq: int) -> AsyncIterator[Event]:
    """The events of a session between two positions."""
    while after_seq < last_seq:
        request = p.ReadLog(key=key, after_seq=after_seq, before_seq=last_seq + 1, limit=PAGE, newest_first=False)
        page: Sequence[p.StoredEvent] = (await session.ask(request)).events
        if not page:
            return
        for stored in page:
            yield decode_event(stored.raw, stored.seq)
        after_seq = page[-1].seq


def explain(topology: Topology, authors: Iterable[str], seq: int, caller: str = "", call_id: str = "") -> SelectionReason:
    """Tell why `select_agent` selects what it does, with the authors that it passes over.

    Args:
        seq: position of the message.
        call_id: the call that it answers; "" for none.
    """
    if may_answer_for(topology, caller):
        return SelectionReason(seq=seq, agent=caller, because="answers", call_id=call_id)
    passed: list[PassedOver] = []
    for author in authors:
        found = obstacle(topology, author)
        if found is None:
            return SelectionReason(seq=seq, agent=author, because="spoke", passed_over=tuple(passed))
        passed.append(found)
    return SelectionReason(seq=seq, agent=topology.root.name, because="root", passed_over=tuple(passed))


def is_transferable(topology: Topology, name: str) -> bool:
    """True when control may stay with the agent: it and all its ancestors are LLM agents that may hand back to their parent.

    An agent that is a tool is never transferable, nor one that works for calls: the user does not talk to it.
    """
    return obstacle(topology, name) is None

"""Model calls of a turn that were not recorded: their requests are built again from the log, where that is exact."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from actors.messages import protocol as p
from actors.messages.codec import decode_event
from actors.messages.event import USER, Event
from actors.messages.llm.recorded import RecordedCall
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from runtime.driver.turns.recorded import recorded_calls
from runtime.engine.interface import Engine

AT_ONCE = 20
"""Requests that an agent is asked to build at once: each may have the whole conversation."""

PAGE = 1_000
"""Events that are read at once."""

GONE = "its event is not in the log any more"
ON_ANOTHER_TREE = "the turn ran on another tree then, and went on with the one that the deployment had later"


async def with_rebuilt(
    engine: Engine, key: SessionKey, turn: TurnInfo, recorded: Sequence[RecordedCall], limit: int | None
) -> list[RecordedCall]:
    """The recorded calls of a turn and, in their places, those that have answers in the log and were not recorded.

    They are in the order of their answers in the log, since the machines' clocks may differ, and may be set back.

    Args:
        recorded: the first ones.
        limit: at most so many of all; None: all.

    Raises:
        ActorLostError, ClusterError: an agent cannot be asked.
        SessionNotFoundError, StoreError: the log cannot be read.
    """
    known = {call.event_id for call in recorded}
    last_seq = recorded[-1].seq if limit is not None and len(recorded) >= limit else turn.last_seq
    lacking: dict[str, list[Event]] = {}
    for event in await _answers(engine, key, turn):
        if event.id not in known and event.seq <= last_seq:
            # An agent that speaks as a tool has a mark before its name.
            lacking.setdefault(event.author.lstrip("@"), []).append(event)
    rebuilt = await asyncio.gather(*(_rebuilt(engine, key, turn, agent, events) for agent, events in lacking.items()))
    return sorted([*recorded, *(call for calls in rebuilt for call in calls)], key=lambda call: (call.seq, call.begun_s))[:limit]


async def _answers(engine: Engine, key: SessionKey, turn: TurnInfo) -> list[Event]:
    """The events of a turn that have answers of models."""
    found: list[Event] = []
    after_seq, more = turn.first_seq - 1, bool(turn.first_seq)
    while more:
        before_seq = turn.last_seq + 1 if turn.state != "running" else None
        page = await engine.session.read_log(p.ReadLog(key=key, after_seq=after_seq, before_seq=before_seq, limit=PAGE))
        events = (decode_event(stored.raw, stored.seq) for stored in page.events)
        found += (event for event in events if _is_answer(event) and event.invocation_id == turn.invocation_id)
        more = page.more and bool(page.events)
        after_seq = page.events[-1].seq if page.events else after_seq
    return found


def _is_answer(event: Event) -> bool:
    return event.model_version is not None and event.author != USER


async def _rebuilt(engine: Engine, key: SessionKey, turn: TurnInfo, agent: str, events: Sequence[Event]) -> list[RecordedCall]:
    found = [_call(event, agent, None, ON_ANOTHER_TREE) for event in events if event.seq <= turn.version_seq]
    events = events[len(found) :]
    for start in range(0, len(events), AT_ONCE):
        some = events[start : start + AT_ONCE]
        seqs = tuple(event.seq for event in some)
        message = p.RebuildRequests(key=key, agent=agent, begun_s=turn.begun_s, seqs=seqs, version=turn.version)
        reply = await engine.runner.rebuild_requests(message)
        given = {call.seq: call for call in recorded_calls(turn.invocation_id, reply)}
        found += (_call(event, agent, given.get(event.seq)) for event in some)
    return found


def _call(event: Event, agent: str, given: RecordedCall | None, omitted: str = GONE) -> RecordedCall:
    return RecordedCall(
        invocation_id=event.invocation_id,
        agent=agent,
        event_id=event.id,
        seq=event.seq,
        begun_s=event.timestamp - (event.duration_s or 0.0),
        ended_s=event.timestamp,
        usage=event.usage,
        request=given.request if given is not None else None,
        omitted=given.omitted if given is not None else omitted,
        rebuilt=True,
        asked=event.model_version or "",
    )

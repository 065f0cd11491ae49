"""The figures of an actor: what it has done, how often things happened in it and how long they took, and how messages travel to
and from its process.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import msgspec

from actors.messages.protocol.base import Lane, Message, Request, Route
from actors.messages.shown import Shown

BOUNDS_S = tuple(0.01 * 2**exponent for exponent in range(14))
"""Bounds of the buckets of times, in seconds; a time that is equal belongs to the bucket."""

TURN, VERSION, MODEL_CALL, TOOL_CALL, SCHEDULE = "turn", "version", "model_call", "tool_call", "schedule"

LABELS = {
    TURN: ("agent", "outcome", "error_type"),
    VERSION: ("version", "outcome"),
    MODEL_CALL: ("agent", "model", "error_type"),
    TOOL_CALL: ("agent", "tool", "outcome"),
    SCHEDULE: ("outcome",),
}
"""What things of a kind differ in."""


class Tally(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What has happened, since an actor was started, of one kind and with the same labels.

    Attributes:
        kind: a key of LABELS.
        labels: their values, in that order; "" for none.
        count: how often.
        total_s: seconds that all of them took.
        buckets: how many took up to each of BOUNDS_S, and then how many took longer; () where times are not measured.
    """

    kind: str
    labels: tuple[str, ...]
    count: int
    total_s: float = 0.0
    buckets: tuple[int, ...] = ()


def sums(parts: Sequence[Sequence[Tally]]) -> list[Tally]:
    """The sums of the tallies of several actors."""
    found: dict[tuple[str, tuple[str, ...]], Tally] = {}
    for tally in (each for part in parts for each in part):
        place = (tally.kind, tally.labels)
        before = found.get(place)
        found[place] = tally if before is None else _added(before, tally)
    return list(found.values())


def _added(one: Tally, other: Tally) -> Tally:
    buckets = (
        tuple(map(int.__add__, one.buckets, other.buckets)) if one.buckets and other.buckets else one.buckets or other.buckets
    )
    return Tally(one.kind, one.labels, one.count + other.count, one.total_s + other.total_s, buckets)


class UnreachedPeer(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """A process to which no direct connection can be made at present. Messages to it go another way.

    Attributes:
        peer: the actor in it, or the name of a process with agents.
        since_s: when that began, in Unix seconds.
        reason: why.
    """

    peer: str
    since_s: float
    reason: str


class ConnectionFigures(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """How messages travel to and from a process.

    Attributes:
        transport: the transport in force, as the setting of that name says.
        made: open connections that the process has made.
        accepted: open connections that others have made to it.
        reconnects: how often a connection that it had made was made again.
        read_bytes, written_bytes: on all connections, those before included.
        unreached: processes to which it can make no connection at present.
    """

    transport: str
    made: int = 0
    accepted: int = 0
    reconnects: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    unreached: Sequence[UnreachedPeer] = ()


class Statistics(Shown, Message, frozen=True, kw_only=True):
    """What an actor has done since it was started.

    Attributes:
        actor: its name; on Ray the name for `ray.get_actor`. An agent has the name of the process in which it lives.
        agent: the agent whose actor it is, "" for other actors. Replicas after the first are `agent/1`, `agent/2` …
        pid: its process; 0, which must not be sent a signal: the sums of several actors, each of which is in `parts`.
        counts: figures by name.
        agents: from a Runner, the statistics of every live agent.
        activations: from a Runner, how often each agent was activated, by the names that `agents` has; those that live no more
            included.
        models: from the actor that limits models, figures by name for each model.
        parts: of sums, the statistics of each actor.
        spare_pids: from a Runner, the processes that are ready for agents.
        standby_pids: from a Session actor or a Runner, the process that stands by for it, and what that has ready for agents.
        host_limit: from a Runner, why it may have `counts["max_hosts"]` processes with agents; "" without a limit.
        log_file: of an agent, the file on its node in which its process logs what the agent says; "" when it logs elsewhere.
        tallies: of a Session actor, how often things have happened, and how long they took.
        connections: of the actor's process; None where all actors are in one process, and of sums.
        node: of an agent, the address of the machine of its process; "" on the local engine, and of sums.
        memory_bytes: of an agent, the memory of its process, which other agents may share; 0 where that is not known, and of
            sums.
    """

    actor: str
    agent: str = ""
    pid: int
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    agents: Sequence[Statistics] = ()
    activations: dict[str, int] = msgspec.field(default_factory=dict)
    models: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    parts: Sequence[Statistics] = ()
    spare_pids: Sequence[int] = ()
    standby_pids: Sequence[int] = ()
    host_limit: str = ""
    log_file: str = ""
    tallies: Sequence[Tally] = ()
    connections: ConnectionFigures | None = None
    node: str = ""
    memory_bytes: int = 0

    @classmethod
    def joined(cls, replies: Sequence[Self]) -> Self:
        """The sums of several actors, under their name without its number. One alone stays as it is."""
        if len(replies) == 1:
            return replies[0]
        return cls(
            # Agents live in processes whose names say nothing about them.
            actor=replies[0].agent or re.sub(r"-\d+$", "", replies[0].actor),
            agent=replies[0].agent,
            pid=0,
            counts=_sum(reply.counts for reply in replies),
            agents=[agent for reply in replies for agent in reply.agents],
            activations=_sum(reply.activations for reply in replies),
            parts=replies,
            spare_pids=tuple(pid for reply in replies for pid in reply.spare_pids),
            standby_pids=tuple(pid for reply in replies for pid in reply.standby_pids),
            host_limit=replies[0].host_limit,
            tallies=tuple(sums([reply.tallies for reply in replies])),
        )


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of figures by name."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part)
    return dict(found)


class GetStatistics(Request[Statistics], frozen=True, kw_only=True):
    """Ask an actor for its figures."""

    route = Route.ALL
    lane = Lane.DIRECT

"""What all messages share, the fencing token of a turn, and the replies that carry nothing of their own."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.json_types import JsonValue
from actors.messages.operating.tally import Tally
from actors.messages.operating.versions import VersionRecord
from actors.messages.session import ONLY_SHARD, SessionKey, Shard
from actors.messages.shown import Shown

PROTOCOL = 2
"""The newest version of the protocol: programs and deployments that know it understand each other, whatever their releases.

It is raised when a program of before would be misunderstood: a message or a field of one is gone, or means something else. A
message may get fields that have defaults, and a deployment may get messages that it did not know, without that. Where only
deployments with some setting need a new version, the others speak the one before: see `runtime.cluster.notices.spoken`.
"""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Common shape of all messages: frozen, and tagged with the name of its class."""


class TurnRef(msgspec.Struct, frozen=True, array_like=True, cache_hash=True, gc=False):
    """Fencing token: a turn, its epoch, and the run that writes. Writes of an older epoch or of an abandoned run are refused.

    Attributes:
        epoch: starts at 1; each time the turn is resumed or continued after a pause, it gets the next one.
        run: the number of an agent's run in that epoch; 0: the Runner itself.
        generation: names the log. A turn may begin under the id of one that was rewound, or deleted with its session; its epochs
            and runs have the same numbers.
    """

    key: SessionKey
    invocation_id: str
    epoch: int
    run: int = 0
    generation: str = ""


class StoredEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An encoded event with its position in the log. Partial events, which are not stored, have position 0."""

    seq: int
    raw: bytes


class Note(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A supervisor's note of its progress on its way to the log, as what it runs brings it along.

    Attributes:
        run: the number of the supervisor's run.
        raw: the event, encoded.
    """

    run: int
    raw: bytes


class Ack(Message, frozen=True, kw_only=True):
    """Empty acknowledgement."""


class ErrorReply(Message, frozen=True, kw_only=True):
    """The reply of an actor that raised.

    Attributes:
        error: the class name of one of this project's errors.
        args: the arguments with which it is raised again on the other side.
        traceback: where users' code failed; "" when it has no part in the error.
    """

    error: str
    args: Sequence[JsonValue] = ()
    traceback: str = ""


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


class GetStatistics(Message, frozen=True, kw_only=True):
    """Ask an actor for its figures."""


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
    counts: dict[str, int] = {}
    agents: Sequence[Statistics] = ()
    activations: dict[str, int] = {}
    models: dict[str, dict[str, int]] = {}
    parts: Sequence[Statistics] = ()
    spare_pids: Sequence[int] = ()
    standby_pids: Sequence[int] = ()
    host_limit: str = ""
    log_file: str = ""
    tallies: Sequence[Tally] = ()
    connections: ConnectionFigures | None = None
    node: str = ""
    memory_bytes: int = 0


class Stop(Message, frozen=True, kw_only=True):
    """Finish what is under way, release everything, and take no more messages.

    Attributes:
        leave_turns: of a Runner: turns that run are not cancelled; they stay open in the log, for a later deployment to resume.
    """

    leave_turns: bool = False


class Drain(Message, frozen=True, kw_only=True):
    """Begin no new turn for a while: the deployment is to be stopped. Sent again and again, while it drains.

    A Runner refuses new turns meanwhile. A Session actor only keeps it, for Runners that are started again. Both reply with
    Draining.

    Attributes:
        lease_s: for how long from now, in seconds; 0: new turns may begin again. A program that drains and is lost ends it so.
        since_s: when the drain began, in Unix seconds: what was asked for before is not new.
        wait_s: a Runner may reply so much later, as soon as nothing is left, in seconds.
    """

    lease_s: float
    since_s: float = 0.0
    wait_s: float = 0.0


class Draining(Message, frozen=True, kw_only=True):
    """What keeps a deployment from being drained.

    Attributes:
        left: from a Runner, turns that run, begin, end or wait in line; from a Session actor, subscribers with news to fetch.
    """

    left: int


class ResumeTurns(Message, frozen=True, kw_only=True):
    """Go on with all turns that are open in the store and do not run: an earlier deployment has left them.

    A program asks a Runner, which does so for the sessions of its shard. The reply is Ack.
    """


class GetVersions(Message, frozen=True, kw_only=True):
    """Ask a Session actor with which versions of the tree turns have begun that are open or paused. It replies VersionsReply."""

    app: str


class VersionsReply(Message, frozen=True, kw_only=True):
    """The names of versions."""

    versions: tuple[str, ...] = ()


class LoadVersion(Message, frozen=True, kw_only=True):
    """Load a version of the tree that turns are to get: a Runner finds out whether it can. The reply is Ack."""

    version: str


class UseVersions(Message, frozen=True, kw_only=True):
    """Go by another record of versions from now on. A Session actor, or a Runner, that has a newer one stays with it.

    The record is kept already where actors find it that are started again. The reply is Ack.
    """

    record: VersionRecord


class GetDrain(Message, frozen=True, kw_only=True):
    """A Runner that was started again asks a Session actor whether the deployment drains. The reply is Drain."""


class AnnounceRunner(Message, frozen=True, kw_only=True):
    """A Runner that was started again takes the place of the one before. The reply is Ack or AnnounceFirst.

    Messages of the one before may still be on their way when its successor runs turns already. They do no harm: until it has
    announced itself a Runner opens, resumes and lists nothing, and the dead do not.

    Attributes:
        runner: the id of the Runner: the name of the actor, a slash, and what only this process of it is called.
        shard: the sessions whose turns it runs. Those that others have left open are lost until they are resumed.
        number: of AnnounceFirst. With another number than the newest, someone else has announced itself meanwhile.
        term: of a Runner that has a standby: each that takes the place of another has a later one. 0: it has none.
    """

    runner: str
    shard: Shard = ONLY_SHARD
    number: int
    term: int = 0

"""What all messages share, how a turn and its writer are named, and the replies that carry nothing of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.messages.session import SessionKey


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Common shape of all messages."""


class TurnRef(msgspec.Struct, frozen=True, array_like=True):
    """Fencing token: a turn, its epoch, and the run that writes. Writes of an older epoch or of an abandoned run are refused.

    Attributes:
        epoch: starts at 1; each time the turn is resumed or continued after a pause, it gets the next one.
        run: the number of an agent's run in that epoch; 0: the Runner itself.
    """

    key: SessionKey
    invocation_id: str
    epoch: int
    run: int = 0


class StoredEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event in its wire form, with its place in the log."""

    seq: int
    raw: bytes


# ---------------------------------------------------------------------------------------------------------- small facts
class Ack(Message, frozen=True, kw_only=True):
    """The reply of whoever has nothing to tell."""


class ErrorReply(Message, frozen=True, kw_only=True):
    """The reply of an actor that raised: one of this project's errors by its name and arguments."""

    error: str
    args: Sequence[Any] = ()


class GetStatistics(Message, frozen=True, kw_only=True):
    """Ask an actor what it has done."""


class Statistics(Message, frozen=True, kw_only=True):
    """What an actor has done since it lives.

    Attributes:
        actor: its name; on Ray the one under which `ray.get_actor` finds it, of an agent that of the process in which it lives.
        agent: the agent whose actor it is, "" for the others. Replicas but the first are `agent/1`, `agent/2` …
        pid: its process; 0: these are the sums of several actors.
        counts: figures by name.
        agents: on the Runner, what every live agent tells.
        models: on the actor that limits models, figures by name for each of them.
        parts: what each of the several actors tells.
        spare_pids: on the Runner, the processes that stand ready for agents.
    """

    actor: str
    agent: str = ""
    pid: int
    counts: dict[str, int] = {}
    agents: Sequence[Statistics] = ()
    models: dict[str, dict[str, int]] = {}
    parts: Sequence[Statistics] = ()
    spare_pids: Sequence[int] = ()


class Stop(Message, frozen=True, kw_only=True):
    """Finish what is under way, let go of everything, take nothing more."""

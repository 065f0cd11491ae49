"""How far a turn is, as its log has it: Session actor to Runner."""

from __future__ import annotations

import msgspec

from actors.messages.config import RunConfig
from actors.messages.json_types import Progress
from actors.messages.protocol.base import Message


class TransferRecord(msgspec.Struct, frozen=True, array_like=True):
    """A transfer in the log: the event at `seq`, on a branch, by `author`, to the agent `to`."""

    seq: int
    branch: str | None
    author: str
    to: str


class WaitingCall(msgspec.Struct, frozen=True, array_like=True):
    """A call of an agent, on a branch, that waits for a response of the user."""

    call_id: str
    agent: str
    branch: str | None


class RunLosses(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """How often a run was lost since its agent last stored an event. An event of the agent ends the count.

    Attributes:
        times: losses of its process, alone or with others.
        alone: attempts in a process of its own. Each is stored before it begins, so a loss of all processes counts, too.
        own: of those losses, how many were of a process of its own, and of nothing else that is known.
        seq: the newest position of the log when one of these was counted last.
        begun_s: when the last attempt alone was stored, in Unix seconds.
        with_runner: the last loss was that of the Runner, which takes all its agents' processes with it.
        ran_code: code of the program is known to have run in the process, such as that of a custom agent.
    """

    times: int = 0
    alone: int = 0
    own: int = 0
    seq: int = 0
    begun_s: float = 0.0
    with_runner: bool = False
    ran_code: bool = False


class TurnProgress(Message, frozen=True, kw_only=True):
    """What the log has of a turn that goes on after a pause or a loss.

    Attributes:
        first_seq: the seq of the user's event that began the turn.
        opened_seq: the seq of the user's event that opened it last; later than `first_seq` after a pause.
        head_seq: the seq of its newest event.
        callers: the agents whose open calls the last user's event answers.
        agent_states: what each agent stored last as `actions.agent_state`, with the seq of that event; by `branches.state_key`,
            since an agent that is a tool may run for several calls.
        transfers: its transfers, in order.
        waiting: its calls that wait for the user, apart from those of flows.
        model_calls: by agent, how many model calls the log has since the message that opened it last, summaries among them; tool
            results do not count.
        losses: of runs, by `branches.state_key`, their losses; by "" those of the Runner since the newest event.
        under_way: by `branches.state_key`, the functions whose calls have no response and wait for no user.
        deadline_s: when the turn is cancelled, in Unix seconds, since its RunConfig has a timeout; 0: never.
        retried_seq: failures up to this seq do not count: the turn was retried after them.
        config: its options; a message that continues it keeps their budgets.
    """

    first_seq: int = 0
    opened_seq: int = 0
    head_seq: int = 0
    callers: tuple[str, ...] = ()
    agent_states: dict[str, tuple[int, Progress]] = msgspec.field(default_factory=dict)
    transfers: tuple[TransferRecord, ...] = ()
    waiting: tuple[WaitingCall, ...] = ()
    model_calls: dict[str, int] = msgspec.field(default_factory=dict)
    losses: dict[str, RunLosses] = msgspec.field(default_factory=dict)
    under_way: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    deadline_s: float = 0.0
    retried_seq: int = 0
    config: RunConfig | None = None

"""Whether a user's answer to a call is taken (semantics.md section 4, "Pauses"), and which task plain words answer (section 8).

Rules of `is_taken`, in the order in which they are tried:

1. A call that waits takes an answer.
2. A request that answers only what waits (`rt.answer`) is refused otherwise.
3. A call that the user has answered while this request was under way or in line takes no second answer: its sender knew of none.
4. Consent, and the answer to a tool's question, are given once, unless the tool asks again.
5. Any other answer is a later value of a long-running call, and reaches its agent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import msgspec

from actors.messages.event import Event
from actors.messages.graph import NodeInfo, scope_of
from actors.messages.protocol.outcomes import AnyOutcome, Paused, path_of_words


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What decides about an answer to a call.

    Attributes:
        is_waiting: its turn is paused, and waits for an answer to it.
        answered_seq: the position of the user's last answer to it; 0 when there is none.
        needed_consent: that answer was consent, or answered a question of its tool.
    """

    is_waiting: bool = False
    answered_seq: int = 0
    needed_consent: bool = False


def is_taken(call: CallFacts, *, only_waiting: bool, known_seq: int) -> bool:
    """True when an answer to the call is taken.

    Args:
        only_waiting: the request answers only what waits.
        known_seq: the log up to here was settled when the request came: what follows belongs to a turn that was open then, or
            that has run since.
    """
    if call.is_waiting:
        return True
    if only_waiting:
        return False
    return not call.answered_seq or (call.answered_seq <= known_seq and not call.needed_consent)


class WaitingTask(NamedTuple):
    """An agent that works on a task with the user waits for the user's words: its turn, and the path of its run."""

    invocation_id: str
    path: str


def waiting_task(paused: Iterable[tuple[int, str, AnyOutcome]]) -> WaitingTask | None:
    """The task that the user's next words answer: of the turn that paused last. None when no task waits.

    Args:
        paused: of each paused turn of the session, where it was opened last, its id, and how it has paused.
    """
    # One turn of a session runs at a time: the one that was opened last has paused last, whatever the clocks have said.
    for _, turn, end in sorted(paused, key=itemgetter(0), reverse=True):
        # The first of its tasks that began to wait.
        if isinstance(end, Paused) and (path := next(filter(None, map(path_of_words, end.call_ids)), "")):
            return WaitingTask(turn, path)
    return None


def as_answer(words: Event, task: WaitingTask, *, is_delegate: bool) -> Event:
    """The event of the user's words, as the answer to a task.

    Args:
        is_delegate: the agent that waits works for a call of another one.
    """
    info = NodeInfo(path=task.path, isolation_scope=scope_of(task.path, is_delegate=is_delegate))
    return msgspec.structs.replace(words, invocation_id=task.invocation_id, node_info=info)

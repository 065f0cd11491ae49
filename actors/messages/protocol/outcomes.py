"""How an agent's run ends. The outcomes of turns are stored: these class names are tags in every database and never change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from actors.messages import typed
from actors.messages.flow import FlowMark
from actors.messages.graph import Route
from actors.messages.json_types import JsonValue
from actors.messages.protocol.base import Message, StoredEvent
from actors.messages.shown import Shown


class Outcome(Shown, Message, frozen=True, kw_only=True):
    """How an agent's run ended.

    Attributes:
        agent: the agent whose run it was.
        llm_calls: model calls it made out of the allowance that came with the Invoke.
        escalated: some event of the run, or of a run below it, had `actions.escalate`.
        state_seq: the seq of the newest change of the session's state that the run knows of; 0: of none.
        mark: of a round of a flow: what its events say of the flow, without results.
    """

    unshown: ClassVar[frozenset[str]] = frozenset({"llm_calls", "escalated", "state_seq", "mark", "closed"})

    agent: str = ""
    llm_calls: int = 0
    escalated: bool = False
    state_seq: int = 0
    mark: FlowMark | None = None


class Finished(Outcome, frozen=True, kw_only=True):
    """The run came to its end.

    Attributes:
        closed: its last event has closed the turn, too.
        output: of a graph, or an agent that is a node of one: what it gives to the nodes after it; None for nothing.
        routes: of a node that calls a function: what it has said.
    """

    closed: bool = False
    output: JsonValue = None
    routes: tuple[Route, ...] = ()


class Transfer(Outcome, frozen=True, kw_only=True):
    """The run transferred the turn to the agent `to`, with the event at `seq`.

    Attributes:
        events: all that the run has stored, the transfer last, if that is little and leaves the state as it was; else nothing.
        call_ids: the run's long-running calls that wait for function responses: the turn is paused when the agent `to` is done.
    """

    unshown: ClassVar[frozenset[str]] = Outcome.unshown | {"events", "call_ids"}

    to: str
    seq: int = 0
    events: Sequence[StoredEvent] = ()
    call_ids: tuple[str, ...] = ()


class Paused(Outcome, frozen=True, kw_only=True):
    """The run waits for function responses to long-running calls, `call_ids`.

    A run that works on a task with the user waits for the user's next words as for the response to a call: see `words_call`.
    """

    call_ids: tuple[str, ...] = ()


class Failed(Outcome, frozen=True, kw_only=True):
    """The run ended with an error, whose event is in the log.

    Attributes:
        error_code: class name of the exception.
        error_message: its text.
        error_args: its arguments when it is one of this project's own errors and they can be encoded, else None.
        error_traceback: where users' code raised it, see Event; "" when it came from no such code.
    """

    error_code: str
    error_message: str = ""
    error_args: Sequence[JsonValue] | None = None
    error_traceback: str = ""


class Cancelled(Outcome, frozen=True, kw_only=True):
    """The turn was cancelled: by its timeout of `timeout_s` seconds, or on request when that is None."""

    timeout_s: float | None = None


AnyOutcome = Finished | Transfer | Paused | Failed | Cancelled


_WORDS = "words:"


def words_call(path: str) -> str:
    """The id of a wait for the user's next words, among the calls of Paused. `path`: of the run that waits."""
    return _WORDS + path


def path_of_words(call_id: str) -> str:
    """The path of the run that waits for the user's next words; "" for the id of a function call."""
    return call_id.removeprefix(_WORDS) if call_id.startswith(_WORDS) else ""


def for_users(outcome: AnyOutcome) -> AnyOutcome:
    """The outcome of a turn without what only actors use: its internal fields are at their defaults, and it has only calls."""
    if isinstance(outcome, Paused) and any(map(path_of_words, outcome.call_ids)):
        calls = tuple(call_id for call_id in outcome.call_ids if not path_of_words(call_id))
        outcome = msgspec.structs.replace(outcome, call_ids=calls)
    is_closed = isinstance(outcome, Finished) and outcome.closed
    if not (outcome.llm_calls or outcome.escalated or outcome.state_seq or outcome.mark is not None or is_closed):
        return outcome
    internal = {"llm_calls": 0, "escalated": False, "state_seq": 0, "mark": None}
    return msgspec.structs.replace(outcome, **internal, **({"closed": False} if isinstance(outcome, Finished) else {}))


_outcomes: msgspec.msgpack.Decoder[AnyOutcome] = typed.decoder(AnyOutcome)


def decode_outcome(raw: bytes) -> AnyOutcome:
    """Decode a stored outcome. Raises msgspec.DecodeError."""
    return _outcomes.decode(raw)

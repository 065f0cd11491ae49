"""Recorded model calls: which are recorded, and what drivers ask Session actors about them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from actors.errors import DefinitionError
from actors.messages.event import Usage
from actors.messages.llm import LlmRequest
from actors.messages.protocol.base import Lane, Message, Request, Route
from actors.messages.protocol.log import CallAttempt, PackedCall, PackedPart
from actors.messages.session import SessionKey
from actors.messages.shown import Shown
from actors.rules.sharding import is_in_share


class RecordedCall(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A model call that was recorded.

    Attributes:
        invocation_id: the turn.
        agent: the agent that called.
        event_id: of the event that has the response; of a call that failed, the one that it would have had.
        seq: position of the event with which the call was stored: that of the response, of the failure, or of what came instead.
        begun_s, ended_s: when the call began and ended, in seconds since the epoch; waiting for the model's limiter and for
            further attempts included.
        streamed: the response came in pieces.
        attempts: each try of the call. A model of your own counts as one, however often it tries.
        usage: tokens, as the service counts them; None when it did not say, or the call failed.
        error: the class of the error with which the call failed, and its text; "" if it did not.
        request: what the model was given; None if it could not be recorded, or is not whole any more.
        omitted: why there is no request; "" if there is one.
    """

    invocation_id: str
    agent: str
    event_id: str
    seq: int
    begun_s: float
    ended_s: float
    streamed: bool = False
    attempts: Sequence[CallAttempt] = ()
    usage: Usage | None = None
    error: str = ""
    request: LlmRequest | None = None
    omitted: str = ""

    @property
    def model(self) -> str:
        """The name of the model that was asked last; "" if none was."""
        return self.attempts[-1].model if self.attempts else ""

    @property
    def duration_s(self) -> float:
        """The seconds that the call took."""
        return max(0.0, self.ended_s - self.begun_s)


class StoredCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The record of a model call, and the position of the event with which it was stored."""

    seq: int
    call: PackedCall


class ModelCallsReply(Message, frozen=True, kw_only=True):
    """Records of model calls. `parts`: all of their requests that are there; `more`: there are further calls."""

    calls: Sequence[StoredCall] = ()
    parts: Sequence[PackedPart] = ()
    more: bool = False


class GetModelCalls(Request[ModelCallsReply], frozen=True, kw_only=True):
    """Ask for the recorded model calls of a turn, oldest first.

    Attributes:
        after: only calls after this one, by its `begun_s` and its id.
        limit: at most so many.
    """

    route = Route.SESSION
    lane = Lane.QUERY

    key: SessionKey
    invocation_id: str
    after: tuple[float, str] | None = None
    limit: int = 100


@dataclass(frozen=True)
class Recording:
    """The settings of recording, as each agent has them.

    Attributes:
        share: of the turns, from 0 to 1.
        mask: gives what is stored in place of a text; None stores texts as they are.

    Raises:
        DefinitionError: the mask is no function, or an async one.
    """

    share: float = 0.0
    mask: Callable[[str], str] | None = None

    def __post_init__(self) -> None:
        if self.mask is None:
            return
        if not callable(self.mask):
            raise DefinitionError(f"mask_requests must be a function of a text, not {type(self.mask).__name__}")
        if inspect.iscoroutinefunction(self.mask):
            raise DefinitionError("mask_requests is async: write it as `def`, since it is called for each text")

    def covers(self, invocation_id: str) -> bool:
        """Whether the model calls of a turn are recorded: the same in every process, and after every loss."""
        return is_in_share(invocation_id, self.share)


NO_RECORDING = Recording()
"""Nothing is recorded."""

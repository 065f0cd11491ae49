"""Running a turn again: driver to Runner, Runner to Session actor."""

from __future__ import annotations

from actors.messages.config import RunConfig
from actors.messages.protocol.base import Message, TurnRef
from actors.messages.protocol.request import Lane, Request, Route
from actors.messages.protocol.turns import ResumeTurnReply
from actors.messages.session import SessionKey


class TurnRetried(Message, frozen=True, kw_only=True):
    """The turn runs again, and was given to `agent`. Its new events stand after `after_seq`."""

    agent: str
    after_seq: int


class RetryTurn(Request[ResumeTurnReply | TurnRetried], frozen=True, kw_only=True):
    """Run a turn that has failed on from its last stored step; or any turn that has ended again from a step of it.

    The Runner replies with TurnRetried; the Session actor, which gives the turn to the Runner that asks, as to ResumeTurn.

    Attributes:
        config: the options of the turn from now on; None: those with which it was opened last.
        from_event: the id of the event after which it runs again; "": after the last one.
        request: names the request: sent again, it does not retry the turn twice.
        runner: of a Runner that asks the Session actor: its id.
        running: see ResumeTurn.
    """

    route = Route.SESSION
    lane = Lane.CHANGE

    key: SessionKey
    invocation_id: str
    config: RunConfig | None = None
    from_event: str = ""
    request: str = ""
    runner: str = ""
    running: TurnRef | None = None

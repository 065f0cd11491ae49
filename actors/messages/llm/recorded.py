"""Model calls as they are recorded: what was asked, of whom, how often, and what came of it.

A request shares nearly all of itself with the one before it. So it is stored in parts, each under a digest of its bytes and once
in a session: the instruction, the tools, the configuration, and each content. `actors.rules.recording` takes requests apart, and
puts them together again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.event import Usage
from actors.messages.llm.model import LlmRequest
from actors.messages.shown import Shown


class CallAttempt(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """One try of a model call.

    Attributes:
        model: the model that was asked, by its name.
        endpoint: where its service is, as far as its client tells; "" for a model that has none.
        begun_s: when it began, in seconds since the epoch.
        error: the class of the error with which it ended, and its text; "" if it did not fail.
    """

    model: str
    endpoint: str = ""
    begun_s: float = 0.0
    error: str = ""


class PackedRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A request whose parts are named by their digests; b"" stands for none.

    Attributes:
        model, agent: as in LlmRequest.
        instruction: the text of the system instruction.
        config: the rest of the configuration, in which the instruction is None if there is one.
        tools: the declarations.
        output_schema: the schema.
        contents: digests of contents, joined: the last ones by themselves, then those of groups of contents, then those of groups
            of groups, and so on.
    """

    model: str = ""
    agent: str = ""
    instruction: bytes = b""
    config: bytes = b""
    tools: bytes = b""
    output_schema: bytes = b""
    contents: Sequence[bytes] = ()


class PackedPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of requests, encoded, with its digest."""

    digest: bytes
    raw: bytes


class PackedCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A model call as it travels and as it is stored. Its fields are those of RecordedCall.

    Attributes:
        id: of the event that has the response.
        request: None if it was not recorded: see `omitted`.
    """

    id: str
    agent: str
    begun_s: float
    ended_s: float
    streamed: bool = False
    attempts: Sequence[CallAttempt] = ()
    usage: Usage | None = None
    error: str = ""
    request: PackedRequest | None = None
    omitted: str = ""


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

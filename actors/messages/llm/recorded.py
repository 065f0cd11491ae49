"""Model calls as they are recorded: what was asked, of whom, how often, and what came of it.

A request shares nearly all of itself with the one before it. So it is stored in parts, each under a digest of its bytes and once
in a session: the instruction, the tools, the configuration, and each content. `actors.rules.recording` takes requests apart, and
puts them together again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.event import Usage
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
    """A model call as it travels and as it is stored. Its fields are those of RecordedCall in `actors.layers.recording.messages`.

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

"""How much a deployment takes in, and how much it asks of models."""

from __future__ import annotations

import msgspec
from pydantic import BaseModel, ConfigDict, Field

KIB = 1024
MIB = 1024 * KIB


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of what is sent and stored, in bytes of the encoded form, and of prompts. Each is a setting of the same name,
    RAYGROVE_MAX_….

    Attributes:
        max_message_bytes: a request of a driver with all that is in it, such as a turn's message with its data.
        max_event_bytes: an event as it is stored. What is larger belongs into an artifact.
        max_state_bytes: the state of one session, of one user and of the app, each; and the `temp:` state of a turn.
        max_inline_bytes: data in a model's answer that stays in the log; what is larger is saved as an artifact.
        max_cache_bytes: memory for what can be read again from the store: sessions in the Session actor, and in each agent what
            it knows of them. What turns are using just now counts, but stays.
        max_listed_targets: agents whose names and descriptions a model is told because it may transfer to them; when there are
            more, it is given a tool to find them.
    """

    max_message_bytes: int = 32 * MIB
    max_event_bytes: int = 4 * MIB
    max_state_bytes: int = MIB
    max_inline_bytes: int = 64 * KIB
    max_cache_bytes: int = 64 * MIB
    max_listed_targets: int = 64


DEFAULT_LIMITS = Limits()
"""Those of whoever sets none."""


class ModelLimits(BaseModel):
    """How much is asked of one model, by all agents of a deployment together. What waits is served session by session.

    Attributes:
        max_concurrency: calls at the same time; None is any number.
        requests_per_minute: calls that begin in any minute, repetitions among them; None is any number.
        tokens_per_minute: what calls may use in a minute, as the model tells it when they are over. Those that are under way are
            counted as the usual one, so it may be overshot by calls that use more; None is any number.
        max_retries: how often a call is repeated whose failure may pass: statuses 429, 500, 502, 503 and 504, no answer at all.
        retry_ratio, retry_reserve: of all calls no more than that part is repeated, and `retry_reserve` calls besides. What goes
            beyond it fails at its first failure.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_concurrency: int | None = Field(default=None, gt=0)
    requests_per_minute: int | None = Field(default=None, gt=0)
    tokens_per_minute: int | None = Field(default=None, gt=0)
    max_retries: int = Field(default=4, ge=0)
    retry_ratio: float = Field(default=0.1, ge=0, le=1)
    retry_reserve: int = Field(default=10, ge=0)

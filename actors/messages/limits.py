"""How much a deployment takes in."""

from __future__ import annotations

import msgspec

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

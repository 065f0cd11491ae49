"""How one turn is to be run."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from actors.messages.codec import flaw

Streaming = Literal["none", "sse"]
OnConcurrentTurn = Literal["enqueue", "reject", "interrupt"]


class RunConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Options of one turn (semantics.md section 2).

    Attributes:
        streaming: "sse" delivers a model's answer in pieces as well; "none" only whole.
        max_llm_calls: model calls of all agents of the turn together; 0 or less is unlimited.
        max_transfers: transfers in the turn; the next one fails it.
        timeout: seconds after which the turn is cancelled; None is never.
        save_input_blobs_as_artifacts: inline data of the message goes to the artifact store, not into the log.
        on_concurrent_turn: what happens while another turn of the session runs: wait in line, be refused, or cancel it.
        custom_metadata: put on the user's event.

    Raises:
        ValueError: a field has a value that is none of the above; the message names field and valid values.
    """

    streaming: Streaming = "none"
    max_llm_calls: int = 500
    max_transfers: int = 32
    timeout: float | None = None
    save_input_blobs_as_artifacts: bool = False
    on_concurrent_turn: OnConcurrentTurn = "enqueue"
    custom_metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        _require("streaming", self.streaming, get_args(Streaming))
        _require("on_concurrent_turn", self.on_concurrent_turn, get_args(OnConcurrentTurn))
        if self.max_transfers < 0:
            raise ValueError(f"RunConfig.max_transfers must be 0 or more, not {self.max_transfers}")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"RunConfig.timeout must be more than 0 seconds or None, not {self.timeout}")
        if self.custom_metadata and (wrong := flaw(self.custom_metadata)) is not None:
            raise ValueError(f"RunConfig.custom_metadata cannot be stored: {wrong}")


def _require(field: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise ValueError(f"RunConfig.{field} must be one of {', '.join(map(repr, valid))}, not {value!r}")

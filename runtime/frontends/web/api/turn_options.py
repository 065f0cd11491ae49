"""Options that clients give to turns, and how far they may go."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from actors.messages.config import MAX_AMOUNT, Budget, OnConcurrentTurn, RunConfig, Streaming
from actors.messages.event import READ_BY, SENDER
from actors.messages.json_types import JsonObject
from runtime.driver.inputs import MAX_NUMBER
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.problems import BadRequestError, NotAllowedError

Number = Annotated[int, msgspec.Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=MAX_AMOUNT)]


class BudgetOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Fields of a Budget. What is left out is as the server has it."""

    tokens: Count | None = None
    money: Amount | None = None
    llm_calls: Count | None = None
    tool_calls: Count | None = None
    seconds: Amount | None = None


class TurnOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Options of a turn: see RunConfig. What is left out is as the server has it; a response that streams has "sse" itself.

    Credentials that are bound to a user may lower the limits of the server, and not raise them.
    """

    streaming: Streaming | None = None
    max_llm_calls: Number | None = None
    max_transfers: Number | None = None
    timeout: float | None = None
    save_input_blobs_as_artifacts: bool | None = None
    on_concurrent_turn: OnConcurrentTurn | None = None
    custom_metadata: JsonObject | None = None
    budget: BudgetOptions | None = None


_OWN_KEYS = (READ_BY, SENDER)
_OWN_PREFIX = "raygrove:"
"""Begins keys of the metadata of messages that no client writes."""


def run_config(call: Call, options: TurnOptions, *, streams: bool) -> RunConfig:
    """The options of a turn.

    Args:
        call: the request.
        options: what its body says.
        streams: partial events are wanted.

    Raises:
        BadRequestError: an option is out of range.
        NotAllowedError: an option goes beyond a limit that the credentials may not raise.
    """
    base = call.served.run_config
    given = {name: value for name, value in msgspec.structs.asdict(options).items() if value is not None}
    own = next((key for key in options.custom_metadata or () if key in _OWN_KEYS or key.startswith(_OWN_PREFIX)), None)
    if own is not None:
        raise BadRequestError(f"customMetadata may have no {own!r}: by that agents and programs know what others have written")
    if streams:
        given["streaming"] = "sse"
    if options.budget is not None:
        given["budget"] = _budget(base.budget, options.budget)
    try:
        config = RunConfig(**{**msgspec.structs.asdict(base), **given})
    except ValueError as error:
        raise BadRequestError(str(error)) from None
    if call.principal.user_id is not None:
        most = _limits(base)
        for name, value in _limits(config).items():
            if value > most[name]:
                raise NotAllowedError(f"config.{name} may be at most {most[name]:g} with these credentials")
    return config


def _budget(base: Budget | None, given: BudgetOptions) -> Budget | None:
    """The budget of the server with what a client gives in its place."""
    fields = {**(msgspec.structs.asdict(base) if base is not None else {}), **_given(given)}
    return Budget(**fields) if fields else None


def _given(fields: BudgetOptions) -> dict[str, float]:
    return {name: value for name, value in msgspec.structs.asdict(fields).items() if value is not None}


def _limits(config: RunConfig) -> dict[str, float]:
    """The limits of a turn by their names in JSON; infinity where there is none."""
    return {
        "maxLlmCalls": config.max_llm_calls if config.max_llm_calls > 0 else math.inf,
        "maxTransfers": config.max_transfers,
        "timeout": config.timeout if config.timeout is not None else math.inf,
        **{
            f"budget.{name}": limit if limit is not None else math.inf
            for name, field in _BUDGET.items()
            for limit in [getattr(config.budget, field, None)]
        },
    }


_BUDGET = {"tokens": "tokens", "money": "money", "llmCalls": "llm_calls", "toolCalls": "tool_calls", "seconds": "seconds"}

"""What agents have used: tokens, calls, seconds and money; and what tokens cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, get_args

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.errors import DefinitionError
from actors.errors.checked_struct import CheckedStruct
from actors.errors.validation import problems
from actors.messages.shown import Shown

UsageBy = Literal["agent", "model", "user", "day", "version", "turn"]
USAGE_BY: tuple[str, ...] = get_args(UsageBy)
"""What usage can be listed by."""

MOST_TURNS = 100
"""Turns that a report by turn lists."""


class UsageSums(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Sums over model calls and tool calls.

    Attributes:
        llm_calls: model calls that were answered.
        tool_calls: calls that models made of tools, agents as tools and transfers among them.
        input_tokens: what models were given, cached tokens and results of their services' own tools included.
        cached_tokens: so many of `input_tokens` came from a cache.
        output_tokens: what models answered, without `reasoning_tokens`.
        reasoning_tokens: what models thought before they answered.
        seconds: how long model calls and tools took, added up also where they ran at the same time.
        money: what the tokens of models with a price cost, in the currency of the prices; None where no model has one.
    """

    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    seconds: float = 0.0
    money: float | None = None

    @property
    def tokens(self) -> int:
        """All tokens: input, output and reasoning."""
        return self.input_tokens + self.output_tokens + self.reasoning_tokens


class UsedTurn(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What one turn has used.

    Attributes:
        user_id, session_id, invocation_id: name the turn.
        begun_s: when it began, in seconds since the epoch.
        sums: what it has used.
    """

    user_id: str
    session_id: str
    invocation_id: str
    begun_s: float
    sums: UsageSums


class UsageReport(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was used, in all and by name.

    Attributes:
        total: the sums of everything that was asked for.
        groups: the sums by agent, model, user, day or version, as was asked for, in the order of their names.
            The model "" stands for what was done without a model, such as tools.
        turns: if they were asked for, the hundred turns that cost most money, those without a price after them by their tokens.
        currency: of `money`; "" where no model has a price.
        unpriced: models that have used tokens and have no price: `money` is without theirs.
    """

    total: UsageSums = UsageSums()
    groups: dict[str, UsageSums] = {}
    turns: Sequence[UsedTurn] = ()
    currency: str = ""
    unpriced: Sequence[str] = ()

    @classmethod
    def joined(cls, reports: Sequence[Self]) -> Self:
        """One report of what several stores have, each without the turns of the others."""
        names = sorted({name for report in reports for name in report.groups})
        turns = [turn for report in reports for turn in report.turns]
        turns.sort(
            key=lambda turn: (-(turn.sums.money or 0.0), -turn.sums.tokens, turn.user_id, turn.session_id, turn.invocation_id)
        )
        return cls(
            total=_together([report.total for report in reports]),
            groups={name: _together([report.groups[name] for report in reports if name in report.groups]) for name in names},
            turns=turns[:MOST_TURNS],
            currency=next((report.currency for report in reports if report.currency), ""),
            unpriced=sorted({model for report in reports for model in report.unpriced}),
        )


def _together(sums: Sequence[UsageSums]) -> UsageSums:
    counted = {field: sum(getattr(each, field) for each in sums) for field in UsageSums.__struct_fields__ if field != "money"}
    priced = [each.money for each in sums if each.money is not None]
    return UsageSums(**counted, money=sum(priced) if priced else None)


class BudgetWarning(Shown, CheckedStruct, frozen=True, kw_only=True, rename="camel"):
    """Most of a budget is used.

    Attributes:
        whose: whose budget it is, in words, such as "user 'ada' today".
        field: the field of Budget that is nearly used up.
        limit: that field.
        used: how much of it is used.
    """

    whose: str
    field: str
    limit: float
    used: float


class UsedBudget(Shown, CheckedStruct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How far one limit of a budget is used.

    Attributes:
        whose: whose budget it is, in words, such as "user 'ada' today".
        field: the field of Budget that is the limit.
        limit: that field, with what was given besides.
        used: how much of it is used, without what is under way.
        at_limit: what happens to a call for which there is no room: see Budget.
        model: the name of the model that is called instead; "": none is.
    """

    whose: str
    field: str
    limit: float
    used: float
    at_limit: str = "stop"
    model: str = ""


PER = 1_000_000
"""Prices are for so many tokens."""


class Price(BaseModel):
    """What a million tokens of a model cost. There are no built-in prices: services change theirs.

    Attributes:
        input: tokens that the model is given.
        output: tokens that it answers.
        cached_input: input that comes from the service's cache; default None, for the price of `input`.
        reasoning: tokens that it thinks; default None, for the price of `output`.
        currency: of all of them, the same for all models of a deployment; default "USD".

    Raises:
        DefinitionError: a field is missing, unknown or out of range; the message names it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    reasoning: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    currency: str = Field(default="USD", min_length=1, max_length=16)

    def __init__(self, **fields: object) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise DefinitionError(f"Price: {problems(error, fields=type(self).model_fields)}") from None

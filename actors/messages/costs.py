"""Costs: the prices of tokens, and the warning that most of a budget is used."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.errors import DefinitionError
from actors.errors.hints import CheckedStruct, problems
from actors.messages.shown import Shown


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

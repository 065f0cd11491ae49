"""What runs reach besides the log: artifacts, memory, places with resources that tools need, means of features, and budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from actors.interfaces.model import Model
from actors.messages.content import Part
from actors.messages.llm.model import LlmRequest
from actors.messages.memory import MemoryEntry
from actors.messages.protocol.log import AskForMore, DoWithout, MaySpend
from actors.messages.session import SessionKey

T = TypeVar("T")


class ArtifactAccess(Protocol):
    """The artifacts of one session."""

    async def save(self, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises InvalidIdError, ArtifactError."""
        ...

    async def load(self, filename: str, version: int | None = None) -> Part | None:
        """Return the part of a version, or of the latest one; None if there is none."""
        ...

    async def keys(self) -> list[str]:
        """Return the names of all artifacts that the session sees, sorted."""
        ...


class MemoryAccess(Protocol):
    """The memory of one user, for the runs of one session."""

    async def add_session(self) -> None:
        """Remember what was said in the session so far, in place of earlier. Raises NoMemoryError, StoreError."""
        ...

    async def search(self, query: str) -> list[MemoryEntry]:
        """Return entries that share a word with the query, best match first, at most 10. Raises NoMemoryError, StoreError."""
        ...


class Offload(Protocol):
    """Runs tools that need more resources than their agent's process has."""

    async def __call__(self, function: Callable[..., Any], arguments: Mapping[str, Any], needs: Mapping[str, Any]) -> Any:
        """Call a function, sync or async, away from the agent's event loop, and return its result.

        Args:
            needs: resources by the names num_cpus, num_gpus, memory and resources.

        Raises:
            Exception: what the function raises.
        """
        ...


Means = Mapping[type[Any], Callable[[SessionKey], Any]]
"""What tools of features reach in a process, by its class; each is made for the session in which a tool runs."""


class Reach(Protocol):
    """Gives the tools of features what they need besides the log."""

    def __call__(self, kind: type[T]) -> T | None:
        """Return the object of this class for the session; None where there is none."""
        ...


class CallBudget(Protocol):
    """Has to allow each call of a model, and of tools, of one run: counts them against the limits and budgets of the turn."""

    def take_free_llm_call(self) -> bool:
        """Count one model call, if nothing is to be asked before. False: `take_llm_call` has to be awaited, and counts it."""
        ...

    async def take_llm_call(self, request: LlmRequest, model: str) -> MaySpend | AskForMore:
        """Count one model call. Returns what is to be done: the call, perhaps of another model, or a question to the user.

        Args:
            request: what the model is to be asked, by which the budget tells how much that is likely to take.
            model: the model's name, by which it has a price.

        Raises:
            LlmCallsLimitExceededError, BudgetExceededError: the turn has none left.
            NoPriceError: the model has no price, and the turn a budget of money.
        """
        ...

    async def take_optional_llm_call(self, request: LlmRequest, model: str) -> MaySpend | DoWithout:
        """Count one model call that the run can do without. Returns whether it is made, perhaps by another model.

        Args as those of `take_llm_call`. Raises LlmCallsLimitExceededError, NoPriceError.
        """
        ...

    async def take_tool_calls(self, unstored: int) -> MaySpend | AskForMore:
        """Check that calls of tools may be run. Returns what is to be done. Raises BudgetExceededError.

        Args:
            unstored: so many of them are not in the log yet.
        """
        ...

    def model_named(self, name: str) -> Model:
        """Return the model of a name, which a budget wants called instead of the agent's. Raises UnknownModelError."""
        ...

"""Which model calls of a deployment are recorded, and what of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from actors.errors import DefinitionError
from actors.rules.capacity.sharding import is_in_share


@dataclass(frozen=True)
class Recording:
    """The settings of recording, as each agent has them.

    Attributes:
        share: of the turns, from 0 to 1.
        mask: gives what is stored in place of a text; None stores texts as they are.

    Raises:
        DefinitionError: the mask is no function, or an async one.
    """

    share: float = 0.0
    mask: Callable[[str], str] | None = None

    def __post_init__(self) -> None:
        if self.mask is None:
            return
        if not callable(self.mask):
            raise DefinitionError(f"mask_requests must be a function of a text, not {type(self.mask).__name__}")
        if inspect.iscoroutinefunction(self.mask):
            raise DefinitionError("mask_requests is async: write it as `def`, since it is called for each text")

    def covers(self, invocation_id: str) -> bool:
        """Whether the model calls of a turn are recorded: the same in every process, and after every loss."""
        return is_in_share(invocation_id, self.share)


NO_RECORDING = Recording()
"""Nothing is recorded."""

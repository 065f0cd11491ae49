"""All operations that are declared with the services that they call."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.driver.operation import AppOperation
from runtime.driver.services import background, batches, deployment, limits, memory, usage, users
from runtime.driver.turns import operations as turns

_MODULES = (turns, background, usage, limits, batches, deployment, memory, users)

OPERATIONS: Sequence[AppOperation] = [each for module in _MODULES for each in module.OPERATIONS]
"""In the order in which the OpenAPI document and the help of the command have them."""

"""Where tools run when there is no cluster: here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from actors.errors.user_code import in_thread


async def in_process(function: Callable[..., Any], arguments: Mapping[str, Any], needs: Mapping[str, Any]) -> Any:
    """Implements `actors.interfaces.context.Offload`: in a thread, whatever it needs."""
    result = await in_thread(function, **arguments)
    return await result if inspect.isawaitable(result) else result

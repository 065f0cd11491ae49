"""Where tools run when there is no cluster: here."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any


async def in_process(function: Callable[..., Any], arguments: Mapping[str, Any], needs: Mapping[str, Any]) -> Any:
    """Implements `actors.interfaces.context.Offload`: in a thread, whatever it needs."""
    result = await asyncio.to_thread(function, **arguments)
    return await result if inspect.isawaitable(result) else result

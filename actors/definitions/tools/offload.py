"""Where tools with needs run when there is no cluster: in this process."""

from __future__ import annotations

import inspect

from actors.errors.user_code import UserFunction, UserResult, in_thread
from actors.messages.json_types import JsonMapping


async def in_process(function: UserFunction, arguments: JsonMapping, needs: JsonMapping) -> UserResult:
    """Implements `actors.interfaces.context.Offload` with a thread of this process; `needs` are ignored.

    Raises:
        BaseException: whatever the function raises.
    """
    result = await in_thread(function, **arguments)
    return await result if inspect.isawaitable(result) else result

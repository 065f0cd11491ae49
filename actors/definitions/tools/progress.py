"""Functions that yield, as tools: what they yield is shown to readers while they run, and the last value is the result."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing
from typing import Any, cast

from actors.definitions.tools.context import Report
from actors.errors.user_code import UserFunction, UserResult, in_thread
from actors.messages.json_types import JsonObject


def yields(function: UserFunction) -> bool:
    """True for a function, or a callable object, that yields what it gives, async or not."""
    called = _code(function)
    return inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called)


async def last_value(function: UserFunction, arguments: JsonObject, report: Report) -> UserResult:
    """Call a function that yields, report each value, and return the last; or what a sync one returns, if that is not None.

    Raises:
        BaseException: whatever the function, or reporting, raises.
    """
    if not inspect.isasyncgenfunction(_code(function)):
        # In one thread: what a function opens, such as a connection to SQLite, may be for that thread only.
        return await in_thread(_last_value, function, arguments, report, asyncio.get_running_loop())
    last: UserResult = None
    async with aclosing(cast(AsyncGenerator[Any, None], function(**arguments))) as values:
        async for last in values:
            await report(last)
    return last


def _last_value(function: UserFunction, arguments: JsonObject, report: Report, loop: asyncio.AbstractEventLoop) -> UserResult:
    last: UserResult = None
    with closing(function(**arguments)) as values:
        while True:
            try:
                last = next(values)
            except StopIteration as end:
                return last if end.value is None else end.value
            asyncio.run_coroutine_threadsafe(report(last), loop).result()


def _code(function: UserFunction) -> UserFunction:
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__

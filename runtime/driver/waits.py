"""Methods that are written once: those of `rt` wait for their results, those of `rt.aio` are awaited.

`rt.turns` is a `TurnsService[Blocking]`, and `rt.aio.turns` is a `TurnsService[Awaited]`. To add a method to both, write one
async method with `@waits`. Callers see its signature and its docstring in both modes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Never, ParamSpec, TypeVar, overload

from actors.errors.hints import explains_wrong_calls

if TYPE_CHECKING:
    from runtime.driver.engine_client import EngineClient

P = ParamSpec("P")
T = TypeVar("T")


class Blocking:
    """The mode of services whose methods wait in the caller's thread."""


class Awaited:
    """The mode of services whose methods are coroutines."""


M = TypeVar("M", bound=Blocking | Awaited)


class RuntimeService(Generic[M]):
    """What a program asks of a deployment.

    Args:
        mode: Blocking or Awaited.
    """

    def __init__(self, client: EngineClient, mode: type[M]) -> None:
        self._client = client
        self._mode = mode


class ServiceMethod(Generic[P, T]):
    """A method that is a function or a coroutine function, by the mode of its service."""

    def __init__(
        self,
        blocking: Callable[Concatenate[Any, P], T],
        awaited: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
    ) -> None:
        self._blocking = blocking
        self._awaited = awaited

    @overload
    def __get__(self, service: None, owner: object) -> Callable[Concatenate[Any, P], T]: ...
    @overload
    def __get__(self, service: RuntimeService[Blocking], owner: object) -> Callable[P, T]: ...
    # With Coroutine[Any, …] mypy would take the results of asyncio.gather for Any.
    @overload
    def __get__(self, service: RuntimeService[Awaited], owner: object) -> Callable[P, Coroutine[object, Never, T]]: ...
    def __get__(self, service: RuntimeService[Any] | None, owner: object) -> object:
        if service is None:
            return self._blocking
        return MethodType(self._awaited if service._mode is Awaited else self._blocking, service)


def waits(body: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> ServiceMethod[P, T]:
    """Make a service method of an async one, which runs on the driver's event loop."""

    # This is no coroutine function: wrong arguments are refused before anything runs.
    @explains_wrong_calls
    @wraps(body)
    def begin(service: RuntimeService[Any], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return body(service, *args, **kwargs)

    @wraps(body)
    def blocking(service: RuntimeService[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return service._client.run(begin(service, *args, **kwargs))

    @wraps(body)
    async def awaited(service: RuntimeService[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await service._client.run_async(begin(service, *args, **kwargs))

    return ServiceMethod(blocking, awaited)


def in_thread(body: Callable[Concatenate[Any, P], T]) -> ServiceMethod[P, T]:
    """Make a service method of one that blocks: it runs in the caller's thread, or in a thread that is awaited."""
    blocking = explains_wrong_calls(body)

    @wraps(body)
    async def awaited(service: RuntimeService[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(blocking, service, *args, **kwargs)

    return ServiceMethod(blocking, awaited)

"""Ray actor classes: each holds one actor of this project, or a model, in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Protocol, TypeGuard, cast

import ray
from ray.exceptions import RayTaskError

from actors.errors.tracebacks import keep_traceback
from actors.interfaces.model import Model, Responses, name_of
from actors.messages.codec import decode, encode
from actors.messages.llm import LlmRequest, LlmResponse
from runtime.cluster.core.actors import ActorStarter, actor_name
from runtime.cluster.packing.pickling import from_chunks, to_chunks
from runtime.cluster.transport.ray_actors import Handle


class SharedModel(Model, Protocol):
    """A model with a state that all agents share, in whatever process they run.

    An engine that copies definitions to other processes keeps one live copy of the model, sends every request to it, and copies
    its state back to the original object with `adopt`.
    """

    def state(self) -> bytes:
        """The state of the live copy."""
        ...

    def adopt(self, state: bytes) -> None:
        """Take over the state of the live copy."""
        ...


LAST_STATE_S = 5.0
"""How long the actor of shared models may take to give their state when its driver leaves."""


def is_shared(model: object) -> TypeGuard[SharedModel]:
    """True for a model with a state of its own."""
    return hasattr(model, "adopt") and hasattr(model, "state")


class SharedModels:
    """The shared models of a deployment, and the Ray actor in which they live."""

    def __init__(self, app_name: str, starter: ActorStarter) -> None:
        self._app_name = app_name
        self._starter = starter
        self._host: Handle | None = None
        self._moved: list[ray.ObjectRef[None]] = []
        self._models: dict[int, tuple[int, SharedModel]] = {}

    def replacement(self, model: str | Model) -> str | Model:
        """The stand-in that travels instead of a model: for a shared one a proxy of its instance in the actor; else itself."""
        if not is_shared(model):
            return model
        host = self._host = self._host or self._start()
        if id(model) not in self._models:
            self._move(model, len(self._models), host)
        slot, _ = self._models[id(model)]
        return RemoteModel(host, slot, name_of(model))

    def _start(self) -> Handle:
        # A restarted process would have lost the state, so it is not restarted.
        name = actor_name(self._app_name, "models")
        return self._starter.start(ModelHost, name, refusal="the models cannot travel", content=None, restarts=0)

    def _move(self, model: SharedModel, slot: int, host: Handle) -> None:
        self._moved.append(_send(host, slot, model))
        self._models[id(model)] = (slot, model)
        _set_links(model, lambda: model.adopt(_state_of(host, slot)), lambda: ray.get(_send(host, slot, model)))

    async def wait_until_started(self) -> None:
        """Wait for all models. What has not started when its driver leaves never will. Raises what unpickling them raises."""
        await asyncio.gather(*self._moved)

    def bring_home(self) -> None:
        """Take the state of each model over into the driver's object, which then follows no more."""
        for slot, model in self._models.values():
            _set_links(model, None, None)
            with suppress(ray.exceptions.RayError):
                model.adopt(_state_of(cast(Handle, self._host), slot, LAST_STATE_S))
        self._models.clear()
        self._moved.clear()
        self._host = None


def _set_links(model: SharedModel, refresh: Callable[[], None] | None, replace: Callable[[], None] | None) -> None:
    """Tell the driver's object how to read its instance and how to replace it, if it has methods for that; None: no more."""
    for method, function in (("follow", refresh), ("replace_by", replace)):
        if hasattr(model, method):
            getattr(model, method)(function)


def _send(host: Handle, slot: int, model: SharedModel) -> ray.ObjectRef[None]:
    """Make a copy of the driver's object the instance."""
    sent: ray.ObjectRef[None] = host.add.remote(slot, *to_chunks("a model cannot travel to its actor", model))
    return sent


def _state_of(host: Handle, slot: int, timeout_s: float | None = None) -> bytes:
    return cast(bytes, ray.get(host.state.remote(slot), timeout=timeout_s))


class ModelHost:
    """Holds the only instances of the stateful models (e.g. `ScriptedModel`) of a deployment.

    Args:
        chunks: of nothing but the environment variables of the deployment.
    """

    def __init__(self, *chunks: bytes) -> None:
        from_chunks(chunks)
        self._models: dict[int, SharedModel] = {}

    async def add(self, slot: int, *chunks: bytes) -> None:
        """Take a model in. All other methods find it by its slot."""
        self._models[slot] = from_chunks(chunks)

    async def generate(self, slot: int, request: bytes, stream: bool) -> list[bytes]:
        """Ask a model. Returns its encoded LlmResponses."""
        try:
            async with Responses(self._models[slot], decode(request, LlmRequest), stream=stream) as responses:
                return [encode(response) async for response in responses]
        except Exception as error:
            # Ray keeps the error, and not where it was raised.
            keep_traceback(error)
            raise

    async def state(self, slot: int) -> bytes:
        """The state of a model now."""
        return self._models[slot].state()


class RemoteModel:
    """A model whose only instance lives in a ModelHost.

    Args:
        slot: the model's number in the host.
        name: the name by which calls of the model are limited.
    """

    def __init__(self, handle: Handle, slot: int, name: str) -> None:
        self._handle = handle
        self._slot = slot
        self.name = name

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Ask the model. Its responses arrive all at once. Raises what the model raises."""
        asked: ray.ObjectRef[list[bytes]] = self._handle.generate.remote(self._slot, encode(request), stream)
        try:
            replies = await asked
        except asyncio.CancelledError:
            ray.cancel(asked)
            raise
        except RayTaskError as error:
            raise error.cause from None
        for raw in replies:
            yield decode(raw, LlmResponse)

"""Models with a state of their own. While a deployment runs, the only instance of each lives in a process that they share.

The driver's object follows that instance: it takes over the instance's state whenever it is asked for it, and at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeGuard, cast

import ray

from actors.interfaces.model import Model, name_of
from runtime.cluster.deployment.actor_starter import ActorStarter
from runtime.cluster.deployment.names import actor_name
from runtime.cluster.handle import Handle
from runtime.cluster.packing.chunks import to_chunks
from runtime.cluster.transport.hosts import ModelHost, SharedModel
from runtime.cluster.transport.proxies import RemoteModel

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

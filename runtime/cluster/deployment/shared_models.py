"""Models with a state of their own. While a deployment runs, each has its only instance in an actor.

The driver's object follows that instance: it takes over the instance's state whenever it is asked for it, and at the end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TypeGuard, cast

import ray

from actors.interfaces.model import Model, SharedModel, name_of
from runtime.cluster.deployment.actor_starter import ActorStarter
from runtime.cluster.deployment.names import actor_name
from runtime.cluster.transport.hosts import ModelHost
from runtime.cluster.transport.link import Handle
from runtime.cluster.transport.proxies import RemoteModel


def is_shared(model: object) -> TypeGuard[SharedModel]:
    """True for a model with a state of its own."""
    return hasattr(model, "adopt") and hasattr(model, "state")


class SharedModels:
    """The shared models of a deployment, and the actors in which they live."""

    def __init__(self, app_name: str, starter: ActorStarter) -> None:
        self._app_name = app_name
        self._starter = starter
        self._models: dict[int, tuple[SharedModel, Handle]] = {}

    def replacement(self, model: str | Model) -> str | Model:
        """What travels instead of a model: for a shared one a proxy of its actor, which is started if need be; else itself."""
        return RemoteModel(self._actor_of(model), name_of(model)) if is_shared(model) else model

    def _actor_of(self, model: SharedModel) -> Handle:
        if id(model) not in self._models:
            name = actor_name(self._app_name, f"model-{len(self._models)}")
            # A restarted process would have lost the state, so it is not restarted.
            handle = self._starter.start(ModelHost, name, refusal="a model cannot travel to its actor", content=model, restarts=0)
            self._models[id(model)] = (model, handle)
            follow = getattr(model, "follow", None)
            if follow is not None:
                follow(lambda: model.adopt(_state_of(handle)))
        return self._models[id(model)][1]

    async def wait_until_started(self) -> None:
        """Wait for all model actors. An actor that has not started when its driver leaves never will."""
        await asyncio.gather(*(handle.state.remote() for _, handle in self._models.values()))

    def bring_home(self) -> None:
        """Take the state of each model over into the driver's object, which then follows no more."""
        for model, handle in self._models.values():
            follow = getattr(model, "follow", None)
            if follow is not None:
                follow(None)
            with suppress(ray.exceptions.RayError):
                model.adopt(_state_of(handle))
        self._models.clear()


def _state_of(handle: Handle) -> bytes:
    return cast(bytes, ray.get(handle.state.remote()))

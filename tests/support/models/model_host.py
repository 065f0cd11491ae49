"""Models with a state of their own, of all deployments of a test run's process, in one process of Ray.

Each deployment starts a process for them, which takes as much as a sixth of a short test on Ray.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
import ray

from runtime.cluster.deployment import engine
from runtime.cluster.deployment.shared_models import ModelHost, SharedModel, SharedModels
from runtime.cluster.packing.pickling import to_chunks
from runtime.cluster.transport.ray_actors import Handle, start_actor

NAMESPACE = "models-of-tests"
"""No command of a test finds the process among its deployments."""

CALLS_AT_ONCE = 1_000

_SLOTS = count()
_HOSTS: dict[str, Handle] = {}
"""The process, by the address of its Ray."""

_USED: list[tuple[Handle, int]] = []
"""Where the models of the running test live."""


class ModelsOfARun(SharedModels):
    """Takes the place of `SharedModels`: each model has a slot that no other deployment has used."""

    def _start(self) -> Handle:
        address = ray.get_runtime_context().gcs_address
        if address not in _HOSTS or not _lives(_HOSTS[address]):
            _HOSTS[address] = start_actor(
                ModelHost, f"models-{os.getpid()}-{next(_SLOTS)}", NAMESPACE, CALLS_AT_ONCE, *to_chunks("", None)
            )
        return _HOSTS[address]

    def _move(self, model: SharedModel, slot: int, host: Handle) -> None:
        own = next(_SLOTS)
        _USED.append((host, own))
        super()._move(model, own, host)


def _lives(host: Handle) -> bool:
    """True if the process answers: that it has no such model."""
    try:
        ray.get(host.state.remote(-1))
    except ray.exceptions.RayTaskError:
        return True
    except ray.exceptions.RayError:
        return False
    return True


@contextmanager
def one_model_host() -> Iterator[None]:
    """A block in which deployments on Ray start no process for models with a state; what these hold is let go at its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "SharedModels", ModelsOfARun)
        yield
    for host, slot in _USED:
        host.add.remote(slot, *to_chunks("", None))
    _USED.clear()

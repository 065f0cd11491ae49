"""Modules that processes of the cluster cannot import."""

from __future__ import annotations

from types import ModuleType

from ray import cloudpickle


def travel_by_value(module: ModuleType) -> None:
    """Have the functions and classes of a module, and of the modules below it, travel with the definitions that use them."""
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

"""A local Ray is started without the processes that one program does not need, and Ray itself stays as it is."""

from __future__ import annotations

from contextlib import suppress

import pytest
from ray._private.node import Node

from runtime.cluster.deployment.local_ray import without_idle_processes

METHODS = ("start_monitor", "start_api_server")


def test_ray_has_its_own_methods_again_when_it_is_started() -> None:
    originals = [getattr(Node, name) for name in METHODS]
    with without_idle_processes():
        assert all(getattr(Node, name) is not original for name, original in zip(METHODS, originals, strict=True))
    assert [getattr(Node, name) for name in METHODS] == originals
    with suppress(RuntimeError), without_idle_processes():
        raise RuntimeError
    assert [getattr(Node, name) for name in METHODS] == originals


def test_a_ray_without_such_a_method_is_started_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Node, "start_monitor")
    with without_idle_processes():
        assert not hasattr(Node, "start_monitor")
    assert not hasattr(Node, "start_monitor")

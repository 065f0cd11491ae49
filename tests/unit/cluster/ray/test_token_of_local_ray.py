"""A Ray that a Runtime starts asks for a token, with every version of Ray."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import ray

from runtime.cluster.deployment.connection import RayConnection
from runtime.cluster.ray.local import ownership
from runtime.settings import Settings


@pytest.mark.parametrize(("given", "used"), [(None, "token"), ("disabled", "disabled"), ("token", "token")])
def test_a_local_ray_asks_for_a_token_unless_the_user_says_no(
    given: str | None, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[str | None] = []
    monkeypatch.setattr(ray, "init", lambda **options: modes.append(os.environ.get(ownership.MODE)))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_ADDRESS", ownership.MODE, *ownership.TOKENS):
        monkeypatch.delenv(name, raising=False)
    if given is not None:
        monkeypatch.setenv(ownership.MODE, given)
    connection = RayConnection(Settings(), None)
    connection.open()
    connection.close()
    assert modes == [used]
    assert os.environ.get(ownership.MODE) == given
    assert ownership.token_file().exists() is (used == "token")

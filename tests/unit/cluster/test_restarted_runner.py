"""The process of a Runner that Ray has started again, without Ray."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray

from runtime.cluster.transport.hosts import RunnerHost


class Calls:
    """Stands in for a method of an actor's handle. Calls are numbered."""

    def __init__(self) -> None:
        self.count = 0

    def remote(self, *_: Any) -> int:
        self.count += 1
        return self.count


def test_it_asks_for_its_turns_until_any_of_its_messages_has_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    actor = SimpleNamespace(receive=Calls(), start_spares=Calls())
    host = RunnerHost.__new__(RunnerHost)
    copied: list[bool] = []
    monkeypatch.setattr(host, "plans", SimpleNamespace(copy_from_peers=lambda: copied.append(True)), raising=False)

    def wait(refs: list[int], *, timeout: float) -> tuple[list[int], list[int]]:
        # Each takes three times as long as the Runner waits; the first is lost.
        assert actor.receive.count < 20
        done = [ref for ref in refs if 1 < ref <= actor.receive.count - 3]
        return done, [ref for ref in refs if ref not in done]

    monkeypatch.setattr(ray, "wait", wait)
    host._recover(actor)  # type: ignore[arg-type]
    assert (actor.receive.count, actor.start_spares.count, copied) == (5, 1, [True])

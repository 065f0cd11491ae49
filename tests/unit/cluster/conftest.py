"""What the tests of this room share."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

from runtime.engine.process import collector


@pytest.fixture(autouse=True)
def collection_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that are made in the tests' own process do not change how it looks for garbage."""
    changed = {
        "freeze": lambda: None,
        "get_freeze_count": lambda: 1,
        "get_threshold": lambda: (700, 10, 10),
        "set_threshold": lambda *_: None,
        "callbacks": [],
    }
    monkeypatch.setattr(collector, "gc", SimpleNamespace(**{**vars(gc), **changed}))

"""Sync tools of google-adk run in an event loop of their thread."""

from __future__ import annotations

import asyncio
import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import ref

import pytest

from runtime.integrations.adk.tools import in_own_loop


class Failing:
    """A tool whose error holds the event loop in a circle of references: the error, its traceback, the loop's frames."""

    async def run_async(self, args: object, tool_context: object) -> Any:
        raise LookupError


def test_a_loop_is_closed_with_its_thread_also_when_only_an_error_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[Any] = []
    loops = [asyncio.new_event_loop()]
    loop = ref(loops[0])
    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as thread:
        patch.setattr(sys, "unraisablehook", unraisable.append)
        # Of a circle, what is older is ended first: here the loop's sockets.
        patch.setattr(asyncio, "new_event_loop", loops.pop)
        error = thread.submit(in_own_loop, Failing(), {}, None).exception()
    assert isinstance(error, LookupError)
    assert loop() is not None
    del error
    gc.collect()
    assert loop() is None
    # A loop that was not closed would warn, which is an error here.
    assert unraisable == []

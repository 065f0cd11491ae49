"""Turns that are asked for in the moment in which their Runtime is closed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import RuntimeClosedError
from actors.testing import PatternModel
from runtime import Runtime


def test_a_turn_that_is_cancelled_before_its_first_step_fails(tmp_path: Path) -> None:
    agent = LlmAgent(name="root", model=PatternModel([], default="hello"))
    runtime = Runtime(
        agent,
        app_name="closing",
        engine="local",
        session_store=f"sqlite:///{tmp_path}/s.db",
        artifact_store=f"file://{tmp_path}/a",
    )
    with runtime as rt:
        is_free = threading.Event()
        # Both come to the loop in the same pass, as where one thread closes a Runtime that another one uses.
        rt._client.call_soon(is_free.wait)
        turn = rt.run(user_id="ada", session_id="s", message="hi")
        rt._client.call_soon(rt._open_turns()._work.cancel_all)
        is_free.set()
        with pytest.raises(RuntimeClosedError, match="'closing' is closed"):
            turn.result()

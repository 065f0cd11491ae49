"""A Runtime that a program hands to another process, and cannot be used there."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import DefinitionError, RuntimeClosedError
from actors.testing import PatternModel
from runtime import Runtime


def test_a_runtime_of_the_local_engine_says_that_no_other_process_can_use_it(tmp_path: Path) -> None:
    root = LlmAgent(name="root", model=PatternModel([]))
    rt = Runtime(root, app_name="here", engine="local", session_store=f"sqlite:///{tmp_path}/sessions.db")
    with pytest.raises(RuntimeClosedError, match="'here' was not started"):
        pickle.dumps(rt)
    with rt, pytest.raises(DefinitionError, match="'here' is on the local engine, in this process"):
        pickle.dumps(rt)
    with pytest.raises(RuntimeClosedError, match="'here' is closed"):
        pickle.dumps(rt)

"""Without google-adk an agent of it gets an error that says what to install."""

from __future__ import annotations

import sys

import pytest

from actors.errors import DefinitionError
from runtime import Runtime


def test_an_agent_of_google_adk_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("runtime.adk", "runtime.integrations.adk"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    agent = type("LlmAgent", (), {"__module__": "google.adk.agents.llm_agent"})()
    with pytest.raises(DefinitionError, match=r"pip install 'raygrove\[adk\]'"):
        Runtime(agent, app_name="test")

"""Without google-adk an agent of it gets an error that says what to install."""

from __future__ import annotations

import pytest

from actors.errors import DefinitionError
from runtime import Runtime
from tests.support.modules import forget_modules


def test_an_agent_of_google_adk_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_modules(monkeypatch, "runtime.adk", "runtime.integrations.adk")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    agent = type("LlmAgent", (), {"__module__": "google.adk.agents.llm_agent"})()
    with pytest.raises(DefinitionError, match=r"pip install 'raygrove\[adk\]'"):
        Runtime(agent, app_name="test")

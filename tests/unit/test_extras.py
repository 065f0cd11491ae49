"""What is an extra: nothing of it is imported without it, and what is missing is told."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from actors import RunConfig
from actors.errors import DefinitionError
from runtime import Runtime
from runtime.frontends.console.serve import serve
from runtime.frontends.web.api.turn_forms import TurnOptions
from tests.support.modules import forget_modules


def test_an_agent_of_google_adk_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_modules(monkeypatch, "runtime.adk", "runtime.integrations.adk")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    agent = type("LlmAgent", (), {"__module__": "google.adk.agents.llm_agent"})()
    with pytest.raises(DefinitionError, match=r"pip install 'raygrove\[adk\]'"):
        Runtime(agent, app_name="test")


LOADED = """
import sys
import runtime, runtime.driver.runtime, runtime.engine.local, runtime.frontends.console.cli
print([name for name in ("starlette", "uvicorn", "jwt", "runtime.web", "runtime.frontends.web") if name in sys.modules])
"""


def test_nothing_of_the_service_is_imported_by_other_programs() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_without_the_extra_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_modules(monkeypatch, "runtime.web", "runtime.frontends.web")
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(DefinitionError, match=r"pip install 'raygrove\[web\]'"):
        serve(["desk.py"])


def test_the_options_of_a_turn_are_those_of_a_run_config() -> None:
    # Budgets of sessions, users, apps and agents are the server's own, and so is what models are shown beside messages.
    # The tree says to which agents users may speak.
    of_server = ("session_budget", "user_daily_budget", "app_daily_budget", "agent_budgets", "model_input_context", "agent")
    assert (*TurnOptions.__struct_fields__, *of_server) == RunConfig.__struct_fields__
    assert set(msgspec.structs.asdict(TurnOptions()).values()) == {None}

"""The example for clusters: one program deploys an app on PostgreSQL, others talk to it and stop it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.driver.runtime import Runtime
from runtime.settings import Settings

DESK = Path(__file__).parents[3] / "examples" / "cluster" / "desk.py"


def run(address: str, stores: dict[str, str], *arguments: str) -> str:
    environment = os.environ | stores | {"RAY_ADDRESS": address, "RAYGROVE_NAMESPACE": Settings().namespace}
    for key in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        environment.pop(key, None)
    return subprocess.run(
        [sys.executable, DESK, *arguments], env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


@pytest.mark.full
@pytest.mark.usefixtures("local_ray")
def test_the_desk_stays_when_its_program_has_ended(local_ray: str, server: str, tmp_path: Path) -> None:
    stores = {"DATABASE_URL": server, "ARTIFACTS_URL": f"file://{tmp_path}/artifacts"}
    assert run(local_ray, stores, "start") == "desk runs\n"
    assert run(local_ray, stores, "start") == "desk runs already\n"
    with Runtime.connect("desk") as rt:
        events = list(rt.run(user_id="ada", session_id="s1", message="Where is my order 42?"))
        assert [event.author for event in events if event.text] == ["orders"]
        assert "It is on its way." in events[-1].text
        # What a program may do from elsewhere as well.
        assert run(local_ray, stores, "ask", "Where is my order 43?") == "orders: It is on its way.\n"
        rt.sessions.delete(user_id="ada", session_id="s1")
        rt.shutdown()

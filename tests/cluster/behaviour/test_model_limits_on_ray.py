"""The actor that limits models, on Ray: found by all drivers, started again when it is lost, and gone with its deployment."""

from __future__ import annotations

from pathlib import Path

import pytest
import ray

from actors import LlmAgent, ModelLimits, RunConfig
from runtime.driver.runtime import Runtime
from runtime.models.gemini import Gemini
from runtime.settings import Settings
from tests.support.runtimes import Deploy
from tests.support.servers.gemini_server import Gate, GeminiServer, Stream, text

pytestmark = pytest.mark.usefixtures("local_ray")

NAMESPACE = Settings().namespace


def test_who_waits_and_who_is_answered_outlive_the_actor_that_limits_them(tmp_path: Path) -> None:
    gate = Gate()
    settings = Settings(model_limits={"gemini-*": ModelLimits(max_concurrency=1)})
    with GeminiServer(lambda _: Stream([text("done")], gate)) as server:
        model = Gemini(model="gemini-2.5-flash", api_key="k", base_url=server.url)
        with Deploy("ray", tmp_path)(LlmAgent(name="root", model=model), settings=settings) as rt:
            turns = [
                rt.run(user_id="ada", session_id=f"s{number}", message="hi", run_config=RunConfig(streaming="sse"))
                for number in range(2)
            ]
            with Runtime.connect("test") as other:
                while (found := dict(other.statistics().models.get("gemini-2.5-flash", {}))).get("waiting") != 1:
                    continue
                assert found["running"] == 1
                ray.kill(ray.get_actor("test/limits", namespace=NAMESPACE), no_restart=False)
                # The second call asks the restarted limiter, which may not have heard of the first one yet.
                while not dict(other.statistics().models.get("gemini-2.5-flash", {})):
                    continue
            gate.release(2)
            assert [turn.result().text for turn in turns] == ["done", "done"]
            assert len(server.requests) == 2
    with pytest.raises(ValueError, match="test/limits"):
        ray.get_actor("test/limits", namespace=NAMESPACE)

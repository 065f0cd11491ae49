"""Processes that were lost are kept by nothing, in the Runner and in Ray's control service."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import ray
from ray.experimental import internal_kv

from actors import CallbackContext, Content, LlmAgent, Plugin
from actors.testing import PatternModel
from runtime.settings import Settings
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn, stored

LOSSES = 5


class CountsProcesses(Plugin):
    """Puts the number of processes that the Runner has an object of in the place of a message that asks for it."""

    def on_user_message_callback(self, context: CallbackContext, content: Content) -> Content | None:
        # Imported and looked at where it runs. What only a collection would find counts.
        import gc

        from runtime.cluster.processes.ray_processes import RayProcess

        if content.text != "count":
            return None
        return Content.of_text(str(sum(isinstance(each, RayProcess) for each in gc.get_objects())), role="user")


def exported() -> int:
    """Classes that Ray's control service has for actors of this program: others use the same Ray."""
    job = ray.get_runtime_context().get_job_id()
    return len(internal_kv._internal_kv_list(f"ActorClass:{job}:".encode(), namespace=b"fun"))


@pytest.mark.full
@pytest.mark.usefixtures("local_ray")
def test_nothing_is_kept_of_lost_processes(tmp_path: Path) -> None:
    root = LlmAgent(name="root", model=PatternModel([], default="ok"))
    settings = Settings(max_live_agents=1, spare_hosts=1)
    with Deploy("ray", tmp_path)(root, plugins=[CountsProcesses()], settings=settings) as rt:
        run_turn(rt, "hi")
        before = exported()
        assert before
        for _ in range(LOSSES):
            os.kill(rt.statistics().agents["root"].pid, signal.SIGKILL)
            run_turn(rt, "hi")
        assert exported() == before

        def kept() -> int:
            run_turn(rt, "count", "counts")
            return int([event for event in stored(rt, "counts") if event.author == "user"][-1].text)

        # The process of the agent, and one that stands ready. A spare may just be started in the place of another.
        until(lambda: kept() <= 2)
        assert rt.statistics().runner.counts["lost"] == LOSSES

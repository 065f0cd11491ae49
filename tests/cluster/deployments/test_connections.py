"""What the statistics of a deployment on Ray tell of the connections between its processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import LlmAgent, ModelLimits
from actors.messages.protocol.statistics import ConnectionFigures
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.runtimes import Deploy, run_turn

pytestmark = pytest.mark.usefixtures("local_ray")


@pytest.mark.parametrize("transport", ["direct", "ray"])
def test_every_process_tells_how_messages_travel_to_and_from_it(
    transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYGROVE_TRANSPORT", transport)
    root = LlmAgent(name="root", model=PatternModel([], default="hello"))
    settings = Settings(model_limits={"PatternModel": ModelLimits(max_concurrency=2)})
    with Deploy("ray", tmp_path)(root, settings=settings) as rt:
        run_turn(rt, "hi")
        before, figures = figures_of(rt), figures_of(rt)
    assert {each.transport for each in figures.values()} == {transport}
    assert len(figures) == 5
    assert not any(each.unreached for each in figures.values())
    assert {name: (each.made, each.accepted) for name, each in figures.items()} == (
        {
            "driver": (3, 0),  # to the Session actor, the Runner and the limiter
            "session": (0, 3),
            "runner": (2, 1),  # to the Session actor and the agent's process
            "limiter": (0, 2),
            "process": (2, 1),  # to the Session actor and the limiter
        }
        if transport == "direct"
        else dict.fromkeys(figures, (0, 0))
    )
    grown = {name for name, each in figures.items() if each.read_bytes > before[name].read_bytes}
    assert grown == (set(figures) if transport == "direct" else set())
    assert all((each.written_bytes > 0) == (transport == "direct") for each in figures.values())


def figures_of(rt: Runtime) -> dict[str, ConnectionFigures]:
    """The figures of the driver and of every process."""
    seen = rt.statistics()
    assert seen.limiter is not None
    (process,) = seen.processes.values()
    found = {
        "driver": seen.connections,
        "session": seen.session.connections,
        "runner": seen.runner.connections,
        "limiter": seen.limiter.connections,
        "process": process.connections,
    }
    return {name: each for name, each in found.items() if each is not None}

"""Whatever is lost, stopped or cut off: what is built again from the log was given to a model, to the byte."""

from __future__ import annotations

from collections import Counter

import pytest

from actors.messages.codec import encode
from actors.messages.llm.recorded import RecordedCall
from tests.simulation.agents import StepModel, TaskModel
from tests.simulation.drivers import Driver
from tests.simulation.play import KEY, Simulation, play
from tests.simulation.simulate import case
from tests.support.fixtures.noted_requests import note_requests

SEEDS = range(0, 800, 4)
"""Of each scenario one."""


@pytest.fixture
def went_out(monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """All requests that models were given, by their bytes."""
    return note_requests(monkeypatch, StepModel, TaskModel)


@pytest.fixture
def rebuilt(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[RecordedCall]]:
    """The model calls of each turn, as they are told when all faults are over."""
    found: dict[str, list[RecordedCall]] = {}
    look = Simulation._look

    async def and_rebuild(self: Simulation) -> None:
        await look(self)
        turns = Driver(self.world).rt.aio.turns
        for invocation_id in self._result.turns:
            found[invocation_id] = await turns.requests(KEY.user, KEY.session, invocation_id)

    monkeypatch.setattr(Simulation, "_look", and_rebuild)
    return found


@pytest.mark.parametrize("enough", [30, pytest.param(80, marks=pytest.mark.full)])
def test_what_is_rebuilt_after_losses_is_what_models_were_given(
    enough: int, went_out: Counter[bytes], rebuilt: dict[str, list[RecordedCall]]
) -> None:
    turns = calls = 0
    refused: Counter[str] = Counter()
    for seed in SEEDS:
        given = case(seed)
        went_out.clear()
        rebuilt.clear()
        result, _ = play(given.scenario, given.plan, given.seed)
        assert not result.problems, (seed, result.problems)
        for invocation_id, told in rebuilt.items():
            turns += 1
            for call in told:
                if call.request is None:
                    refused[call.omitted] += 1
                    continue
                calls += 1
                assert encode(call.request) in went_out, (seed, invocation_id, call.seq)
        if turns >= enough:
            break
    assert turns >= enough
    assert calls > turns
    assert set(refused) <= {"a before_model_callback may have changed it"}

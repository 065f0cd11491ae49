"""Services of a Runner: features with handlers of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import CustomAgent
from actors.actor import Handlers
from actors.messages import protocol as p
from actors.runner.actor import RunnerActor
from actors.runner.environment import RunnerEnvironment
from actors.runner.service import RunnerService
from tests.support.fixtures.runner_fixture import RunnerFixture


class SecondStop(RunnerService):
    def handlers(self) -> Handlers:
        return {p.Stop: self.stop}

    async def stop(self, _: p.Stop) -> p.Ack:
        return p.Ack()


async def test_a_message_with_two_handlers_is_found_when_the_runner_starts(tmp_path: Path) -> None:
    fixture = RunnerFixture(CustomAgent(name="root"), tmp_path)
    environment = RunnerEnvironment(fixture.session, fixture.directory, fixture.artifacts)
    with pytest.raises(TypeError, match="Stop has two handlers: SecondStop has the second one"):
        RunnerActor(environment, services=lambda _: [SecondStop()])

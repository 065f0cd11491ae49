"""A model that says nothing is asked again once, whichever actor is lost meanwhile, and its turn says why it has no answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from actors import CallbackContext, LlmAgent, LlmRequest, LlmResponse, Usage
from tests.support.fixtures.lossy_engine import Loss, Victim, lossy_runtime


class Silent:
    """Says nothing, and is paid for it."""

    name = "silent"

    def __init__(self) -> None:
        self.calls = 0

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.calls += 1
        yield LlmResponse(finish_reason="STOP", usage=Usage(prompt_token_count=3))


def nothing(callback_context: CallbackContext) -> None:
    """Do nothing. Because of it the last event of a run is not its end."""


@pytest.mark.sampled(4, full=3)
@pytest.mark.parametrize("has_callback", [False, True])
@pytest.mark.parametrize("who", get_args(Victim))
def test_it_is_asked_again_once_whichever_actor_is_lost(tmp_path: Path, who: Victim, has_callback: bool) -> None:
    def play(folder: Path, losses: list[Loss]) -> int:
        folder.mkdir()
        model = Silent()
        rt, engine = lossy_runtime(
            LlmAgent(name="a", model=model, after_agent_callback=nothing if has_callback else None), folder, losses
        )
        with rt:
            result = rt.run(user_id="ada", session_id="s1", message="hi").result()
        assert result.error_code == "MODEL_RETURNED_NO_CONTENT"
        assert [event.error_code for event in result.events].count("MODEL_RETURNED_NO_CONTENT") == 1
        assert 2 <= model.calls <= 2 + 2 * len(engine.lost)
        return engine.messages

    for at in range(play(tmp_path / "whole", [])):
        for is_before in (True, False):
            play(tmp_path / f"{at} {is_before}", [Loss(at, who, is_before)])

"""What stands before limited models: when a call is made again, what is told of it, and what happens without its actor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import pytest

from actors import Content, LlmRequest, LlmResponse
from actors.actor import Actor
from actors.agent.rate_limited_model import LimiterClient
from actors.errors import ActorLostError, ModelServiceError
from actors.interfaces.model import Model
from actors.limiter.actor import LimiterActor
from actors.messages.event import Usage
from actors.messages.limits import ModelLimits
from actors.refs.limiter import LimiterRef
from actors.rules.recovery.backoff import Backoff
from actors.testing import ScriptedModel
from runtime.engine.local import LocalLink
from tests.support.session_fixture import KEY, settled


class Playing:
    """A model that plays a script: a text is an answer in two pieces, an error is raised, a pair raises behind the text."""

    name = "playing"

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.asked = 0

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.asked += 1
        turn = self.script.pop(0)
        text, error = turn if isinstance(turn, tuple) else (turn, None)
        if isinstance(text, Exception):
            raise text
        yield LlmResponse(content=Content.of_text(text, role="model"), partial=True)
        if error is not None:
            raise error
        yield LlmResponse(content=Content.of_text(text, role="model"), usage=Usage(total_token_count=70))


class Busy(Exception):
    """As other makers' clients tell it."""

    status_code = 429


class Lost:
    """A way to an actor that is gone for good."""

    async def send(self, raw: bytes, *, once: bool = False) -> bytes:
        raise ActorLostError("the actor that limits models", "gone")


class Desk:
    def __init__(self, **limits: Any) -> None:
        self.limits = {"playing": ModelLimits(**limits)}
        self.actor: Actor = LimiterActor(self.limits, chance=lambda: 1.0)
        self.ref = LimiterRef(LocalLink(self.actor))
        self.gate = LimiterClient(self.ref, self.limits)

    async def ask(self, model: Any, request: LlmRequest | None = None) -> list[str]:
        asked = self.gate.before(model, KEY).generate(request or LlmRequest(), stream=True)
        async with aclosing(cast(Any, asked)) as responses:
            return [response.content.text async for response in responses]

    async def counts(self) -> dict[str, int]:
        await settled()
        return (await self.ref.statistics()).models.get("playing", {})


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.rules.capacity.rate_limiter.BACKOFF", Backoff(0.01, 60.0))


async def test_a_call_is_made_through_the_gate_and_its_end_is_told() -> None:
    desk = Desk(max_concurrency=1, tokens_per_minute=60)
    assert await desk.ask(Playing("hi")) == ["hi", "hi"]
    assert (await desk.counts())["running"] == 0
    # 70 tokens of 60 were used.
    waiting = asyncio.create_task(desk.ask(Playing("no")))
    assert (await desk.counts())["waiting"] == 1
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (await desk.counts())["waiting"] == 0


@pytest.mark.parametrize(
    "error",
    [ModelServiceError("m", 503, "busy"), ModelServiceError("m", None, "lost"), ConnectionError(), TimeoutError(), Busy()],
)
async def test_failures_that_may_pass_are_made_good(error: Exception) -> None:
    desk, model = Desk(), Playing(error, "hi")
    assert await desk.ask(model) == ["hi", "hi"]
    assert (await desk.counts())["retried"] == 1


@pytest.mark.parametrize("script", [ModelServiceError("m", 400, "wrong"), ValueError("wrong"), ("half", ConnectionError("cut"))])
async def test_others_and_those_in_the_middle_of_an_answer_are_not(script: Any) -> None:
    desk, model = Desk(), Playing(script, "never")
    with pytest.raises(Exception, match=r"wrong|cut"):
        await desk.ask(model)
    assert model.asked == 1
    counts = await desk.counts()
    assert (counts["running"], counts["retried"], counts["retries_refused"]) == (0, 0, 0)


async def test_what_the_service_advises_is_what_is_waited() -> None:
    desk = Desk()
    with pytest.raises(ModelServiceError, match="later"):
        await desk.ask(Playing(ModelServiceError("m", 429, "later", 3_600.0)))
    assert await desk.ask(Playing(ModelServiceError("m", 429, "soon", 0.0), "hi")) == ["hi", "hi"]


async def test_who_leaves_in_the_middle_of_an_answer_gives_its_permit_back() -> None:
    desk = Desk(max_concurrency=1)
    async with aclosing(cast(Any, desk.gate.before(Playing("hi"), KEY).generate(LlmRequest(), stream=True))) as responses:
        await anext(responses)
        assert (await desk.counts())["running"] == 1
    assert (await desk.counts())["running"] == 0


async def test_the_model_that_a_request_names_is_the_one_that_counts() -> None:
    desk = Desk()
    assert await desk.ask(Playing("hi"), LlmRequest(model="other")) == ["hi", "hi"]
    assert await desk.counts() == {}
    await desk.ask(ScriptedModel(["hi"]), LlmRequest(model="playing"))
    assert (await desk.counts())["granted"] == 1


async def test_a_model_is_asked_without_its_own_repetitions() -> None:
    class Stubborn(Playing):
        def once(self) -> Model:
            return Playing("once")

    desk = Desk()
    assert await desk.ask(Stubborn("twice")) == ["once", "once"]
    assert await desk.ask(Stubborn("twice"), LlmRequest(model="other")) == ["twice", "twice"]


async def test_without_its_actor_calls_go_through_and_fail_as_they_do(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.gate = LimiterClient(LimiterRef(Lost()), desk.limits)
    assert await desk.ask(Playing("hi")) == ["hi", "hi"]
    with pytest.raises(ConnectionError):
        await desk.ask(Playing(ConnectionError()))
    await desk.gate.close()
    assert "nobody limits model 'playing' any more" in caplog.text


async def test_calls_under_way_are_told_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.agent.rate_limited_model.RENEW_S", 0.01)
    desk = Desk(max_concurrency=1)
    permit = await desk.gate.enter("playing", KEY)
    # Another actor in its place, as after a loss.
    again = LimiterActor(desk.limits)
    desk.actor.__dict__.update(vars(again))
    desk.actor._handlers = again.handlers()
    while not (await desk.counts()).get("running"):
        continue
    waiting = asyncio.create_task(desk.gate.enter("playing", KEY))
    await settled()
    assert not waiting.done()
    desk.gate.leave(permit, answered=True)
    desk.gate.leave(await waiting)
    await desk.gate.close()

"""What stands before limited models: when a call is made again, what is told of it, and what happens without its actor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import pytest

from actors import Content, LlmRequest, LlmResponse
from actors.actor import Actor
from actors.errors import ActorLostError, ModelServiceError
from actors.interfaces.model import Model
from actors.interfaces.transport import EarlyReply
from actors.layers.limiter.actor import LimiterActor
from actors.layers.limiter.client import LimiterClient
from actors.layers.limiter.limits import ModelLimits
from actors.layers.limiter.rate_limiter import LEASE_S, RENEW_S
from actors.messages.event import Usage
from actors.refs import Ref
from actors.rules.backoff import Backoff
from actors.testing import ScriptedModel
from runtime.engine.local import LocalLink
from tests.support.fixtures.session_fixture import KEY, settled
from tests.support.virtual_time import run_virtually


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

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        raise ActorLostError("the actor that limits models", "gone")


class LimiterFixture:
    """The limiter's actor, and a client of it."""

    def __init__(self, **limits: Any) -> None:
        self.limits = {"playing": ModelLimits(**limits)}
        self.actor: Actor = LimiterActor(self.limits, chance=lambda: 1.0)
        self.ref = Ref(LocalLink(self.actor))
        self.client = LimiterClient(self.ref, self.limits)

    async def ask(self, model: Any, request: LlmRequest | None = None) -> list[str]:
        asked = self.client.limited(model, KEY).generate(request or LlmRequest(), stream=True)
        async with aclosing(cast(Any, asked)) as responses:
            return [response.content.text async for response in responses]

    async def counts(self) -> dict[str, int]:
        await settled()
        return (await self.ref.statistics()).models.get("playing", {})


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.layers.limiter.rate_limiter.BACKOFF", Backoff(0.01, 60.0))


async def test_a_call_is_made_through_the_gate_and_its_end_is_told() -> None:
    fixture = LimiterFixture(max_concurrency=1, tokens_per_minute=60)
    assert await fixture.ask(Playing("hi")) == ["hi", "hi"]
    assert (await fixture.counts())["running"] == 0
    # 70 tokens of 60 were used.
    waiting = asyncio.create_task(fixture.ask(Playing("no")))
    assert (await fixture.counts())["waiting"] == 1
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (await fixture.counts())["waiting"] == 0


@pytest.mark.parametrize(
    "error",
    [ModelServiceError("m", 503, "busy"), ModelServiceError("m", None, "lost"), ConnectionError(), TimeoutError(), Busy()],
)
async def test_failures_that_may_pass_are_made_good(error: Exception) -> None:
    fixture, model = LimiterFixture(), Playing(error, "hi")
    assert await fixture.ask(model) == ["hi", "hi"]
    assert (await fixture.counts())["retried"] == 1


@pytest.mark.parametrize("script", [ModelServiceError("m", 400, "wrong"), ValueError("wrong"), ("half", ConnectionError("cut"))])
async def test_others_and_those_in_the_middle_of_an_answer_are_not(script: Any) -> None:
    fixture, model = LimiterFixture(), Playing(script, "never")
    with pytest.raises(Exception, match=r"wrong|cut"):
        await fixture.ask(model)
    assert model.asked == 1
    counts = await fixture.counts()
    assert (counts["running"], counts["retried"], counts["retries_refused"]) == (0, 0, 0)


async def test_what_the_service_advises_is_what_is_waited() -> None:
    fixture = LimiterFixture()
    with pytest.raises(ModelServiceError, match="later"):
        await fixture.ask(Playing(ModelServiceError("m", 429, "later", 3_600.0)))
    assert await fixture.ask(Playing(ModelServiceError("m", 429, "soon", 0.0), "hi")) == ["hi", "hi"]


async def test_who_leaves_in_the_middle_of_an_answer_gives_its_permit_back() -> None:
    fixture = LimiterFixture(max_concurrency=1)
    async with aclosing(cast(Any, fixture.client.limited(Playing("hi"), KEY).generate(LlmRequest(), stream=True))) as responses:
        await anext(responses)
        assert (await fixture.counts())["running"] == 1
    assert (await fixture.counts())["running"] == 0


async def test_the_model_that_a_request_names_is_the_one_that_counts() -> None:
    fixture = LimiterFixture()
    assert await fixture.ask(Playing("hi"), LlmRequest(model="other")) == ["hi", "hi"]
    assert await fixture.counts() == {}
    await fixture.ask(ScriptedModel(["hi"]), LlmRequest(model="playing"))
    assert (await fixture.counts())["granted"] == 1


async def test_a_model_is_asked_without_its_own_repetitions() -> None:
    class Stubborn(Playing):
        def once(self) -> Model:
            return Playing("once")

    fixture = LimiterFixture()
    assert await fixture.ask(Stubborn("twice")) == ["once", "once"]
    assert await fixture.ask(Stubborn("twice"), LlmRequest(model="other")) == ["twice", "twice"]


async def test_without_its_actor_calls_go_through_and_fail_as_they_do(caplog: pytest.LogCaptureFixture) -> None:
    fixture = LimiterFixture()
    fixture.client = LimiterClient(Ref(Lost()), fixture.limits)
    assert await fixture.ask(Playing("hi")) == ["hi", "hi"]
    with pytest.raises(ConnectionError):
        await fixture.ask(Playing(ConnectionError()))
    await fixture.client.close()
    assert "nobody limits model 'playing' any more" in caplog.text


def test_calls_under_way_are_told_again_and_again_so_that_an_actor_that_was_lost_counts_them() -> None:
    async def play() -> None:
        fixture = LimiterFixture(max_concurrency=1)
        permit = await fixture.client.acquire("playing", KEY)
        # Another actor in its place, as after a loss.
        again = LimiterActor(fixture.limits)
        fixture.actor.__dict__.update(vars(again))
        fixture.actor._handlers = again.handlers()
        await asyncio.sleep(RENEW_S - 0.1)
        assert await fixture.counts() == {}
        await asyncio.sleep(0.2)
        assert (await fixture.counts())["running"] == 1
        # It is renewed for as long as it takes.
        waiting = asyncio.create_task(fixture.client.acquire("playing", KEY))
        await asyncio.sleep(LEASE_S * 3)
        assert not waiting.done()
        fixture.client.release(permit, answered=True)
        fixture.client.release(await waiting)
        await fixture.client.close()

    run_virtually(play())


def test_a_process_that_was_stopped_for_long_waits_again_and_makes_no_call_without_a_permit() -> None:
    async def play() -> None:
        fixture = LimiterFixture(max_concurrency=1)
        stopped, other = LimiterClient(fixture.ref, fixture.limits), LimiterClient(fixture.ref, fixture.limits)
        permit = await other.acquire("playing", KEY)
        waiting = asyncio.create_task(stopped.acquire("playing", KEY))
        await settled()
        # It does not renew meanwhile.
        await stopped.close()
        await asyncio.sleep(LEASE_S * 3)
        assert not waiting.done()
        other.release(permit, answered=True)
        stopped.release(await waiting, answered=True)
        await other.close()
        await stopped.close()

    run_virtually(play())


def test_what_a_client_holds_that_is_gone_is_free_when_its_lease_has_ended() -> None:
    async def play() -> None:
        fixture = LimiterFixture(max_concurrency=1)
        await fixture.client.acquire("playing", KEY)
        await fixture.client.close()
        other = LimiterClient(fixture.ref, fixture.limits)
        began_s = asyncio.get_running_loop().time()
        other.release(await other.acquire("playing", KEY))
        assert LEASE_S <= asyncio.get_running_loop().time() - began_s <= LEASE_S * 4 / 3
        await other.close()

    run_virtually(play())

"""Calls of limited models: permits and who waits for them, limits that are changed, and when a call is made again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import pytest

from actors import Content, LlmRequest, LlmResponse
from actors.actor import Actor
from actors.errors import ActorLostError, ModelServiceError, RequestError
from actors.interfaces.model import Model
from actors.interfaces.transport import EarlyReply
from actors.layers.limiter.actor import LimiterActor
from actors.layers.limiter.client import LimiterClient
from actors.layers.limiter.limits import ModelLimits, changed_limits, in_force, limits_of, name_of
from actors.layers.limiter.messages import AcquirePermit, GetWaitingCalls, ReleasePermit, RenewPermits
from actors.layers.limiter.rate_limiter import FailedAttempt, RateLimiter
from actors.messages.event import Usage
from actors.messages.session import SessionKey
from actors.refs import Ref
from actors.rules.backoff import Backoff
from actors.testing import ScriptedModel
from runtime.engine.local import LocalLink
from tests.support.fixtures.session_fixture import KEY, Clock, settled

LIMITS = {"m*": ModelLimits(max_concurrency=1)}


class LimiterFixture:
    """The limiter's actor, with short ways to use it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.ref = Ref(LocalLink(LimiterActor(LIMITS, clock=self.clock, chance=lambda: 0.0)))

    def ask(self, permit: str, *, holder: str = "h", model: str = "m", **more: Any) -> asyncio.Task[bool]:
        session = SessionKey("app", "ada", permit[0])
        message = AcquirePermit(permit=permit, holder=holder, model=model, session=session, **more)
        return asyncio.create_task(self._asked(message))

    async def _asked(self, message: AcquirePermit) -> bool:
        while (reply := await self.ref.ask(message)).again:
            pass
        return reply.granted

    async def release(self, permit: str, **more: Any) -> None:
        await self.ref.ask(ReleasePermit(permit=permit, **more))

    async def renew(self, holder: str, **held: str) -> None:
        await self.ref.ask(RenewPermits(holder=holder, held=held))

    async def counts(self, model: str = "m") -> dict[str, int]:
        return (await self.ref.statistics()).models[model]


@pytest.fixture
async def limiter() -> AsyncIterator[LimiterFixture]:
    made = LimiterFixture()
    yield made
    await made.ref.stop()


async def test_where_the_calls_of_a_session_wait_is_told(limiter: LimiterFixture) -> None:
    asked = [limiter.ask(permit) for permit in ("a1", "b1", "b2", "c1")]
    await settled()
    limiter.clock.now_s += 7
    asked += [limiter.ask("b3", model="m2"), limiter.ask("b4", model="m2")]
    await settled()

    async def told(session: str) -> list[tuple[str, int, int, float, int, float]]:
        calls = (await limiter.ref.ask(GetWaitingCalls(session=SessionKey("app", "ada", session)))).calls
        return [
            (each.model, each.before, each.running, each.waiting_s, each.failed_attempts, each.repeats_in_s) for each in calls
        ]

    assert await told("a") == await told("none") == []
    assert await told("b") == [("m", 0, 1, 7, 0, 0), ("m", 2, 1, 7, 0, 0), ("m2", 0, 1, 0, 0, 0)]
    assert await told("c") == [("m", 1, 1, 7, 0, 0)]
    # One that is to be repeated waits for its backoff.
    asked.append(limiter.ask("a1", attempt=1, status=503, retry_after_s=9.0))
    await settled()
    assert await told("a") == [("m", 0, 1, 0, 1, 9)]
    for task in asked:
        task.cancel()


async def test_who_is_not_there_any_more_leaves_the_line_also_when_his_messages_overtake_each_other(
    limiter: LimiterFixture,
) -> None:
    assert await limiter.ask("a1")
    waiting = limiter.ask("b1")
    await settled()
    await limiter.release("b1")
    assert not await waiting
    await limiter.release("c1")
    assert not await limiter.ask("c1")
    await limiter.release("a1")
    counts = await limiter.counts()
    assert (counts["running"], counts["waiting"]) == (0, 0)


async def test_what_was_released_is_not_brought_back_by_a_renewal_that_was_overtaken(limiter: LimiterFixture) -> None:
    assert await limiter.ask("a1", holder="here")
    waiting = limiter.ask("b1", holder="here")
    await settled()
    await limiter.release("a1", answered=True)
    await limiter.renew("here", a1="m")
    assert await waiting
    await limiter.release("b1", answered=True)
    assert (await limiter.counts())["running"] == 0
    # Nor is one whose repetition was refused.
    assert await limiter.ask("c1", holder="here")
    assert not await limiter.ask("c1", holder="here", attempt=5)
    await limiter.renew("here", c1="m")
    assert (await limiter.counts())["running"] == 0


async def test_what_was_released_before_an_actor_was_lost_is_not_held_by_a_renewal_that_came_late(
    limiter: LimiterFixture,
) -> None:
    await limiter.renew("h", a="m", b="m")
    assert (await limiter.counts())["running"] == 2
    await limiter.renew("h", b="m")
    assert (await limiter.counts())["running"] == 1


async def test_a_call_that_may_not_be_made_again_is_told_so_at_once_and_is_over(limiter: LimiterFixture) -> None:
    assert await limiter.ask("a1")
    assert not await limiter.ask("a1", attempt=5)
    assert await limiter.ask("b1")
    assert (await limiter.counts())["retries_refused"] == 1


async def test_nobody_waits_for_an_actor_that_is_stopped(limiter: LimiterFixture) -> None:
    assert await limiter.ask("a1")
    waiting = limiter.ask("b1")
    await settled()
    await limiter.ref.stop()
    assert not await waiting


SETTINGS = {"gemini-*": ModelLimits(max_concurrency=8, max_retries=1), "*": ModelLimits(requests_per_minute=60)}
ADA = SessionKey("app", "ada", "s1")


def test_a_change_keeps_what_it_does_not_name() -> None:
    changed = changed_limits("gemini-2.5-pro", {"tokens_per_minute": 1000}, SETTINGS, {})
    assert changed == {"gemini-2.5-pro": ModelLimits(max_concurrency=8, max_retries=1, tokens_per_minute=1000)}
    again = changed_limits("gemini-2.5-pro", {"max_concurrency": None}, SETTINGS, changed)
    assert again == {"gemini-2.5-pro": ModelLimits(max_retries=1, tokens_per_minute=1000)}
    limits = in_force(SETTINGS, changed_limits("*", {"requests_per_minute": 5}, SETTINGS, again))
    assert limits["*"] == ModelLimits(requests_per_minute=5)
    assert limits_of("gemini-2.5-pro", limits) == again["gemini-2.5-pro"]


def test_a_changed_pattern_keeps_its_place_in_the_settings() -> None:
    limits = in_force(SETTINGS, changed_limits("*", {"requests_per_minute": 5}, SETTINGS, {}))
    assert [limits_of(model, limits) for model in ("gemini-x", "gpt-5")] == [
        SETTINGS["gemini-*"],
        ModelLimits(requests_per_minute=5),
    ]


def test_models_are_counted_where_their_limits_are() -> None:
    same = {"a": ModelLimits(), "b*": ModelLimits(), "*": ModelLimits()}
    assert [name_of(model, same) for model in ("a", "b1", "c")] == ["a", "b*", "*"]
    assert name_of("c", {"a": ModelLimits()}) == ""


@pytest.mark.parametrize("name", ["gpt-5", "gem*", ""])
def test_a_model_that_nothing_counts_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="had no limits when the deployment started"):
        changed_limits(name, {"max_concurrency": 1}, {"gemini-*": ModelLimits()}, {})


def test_a_larger_reserve_allows_more_retries_and_a_smaller_one_fewer() -> None:
    limiter = RateLimiter(ModelLimits(retry_reserve=1))
    failed = FailedAttempt(attempt=1, status=503, retry_after_s=0.0)
    assert [limiter.retry(f"p{number}", ADA, failed, 0.0, 0.0) for number in range(2)] == [True, False]
    limiter.change(ModelLimits(retry_reserve=2))
    assert [limiter.retry(f"q{number}", ADA, failed, 0.0, 0.0) for number in range(2)] == [True, False]
    limiter.change(ModelLimits(retry_reserve=9))
    limiter.change(ModelLimits(retry_reserve=0))
    assert not limiter.retry("r", ADA, failed, 0.0, 0.0)


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


class ClientFixture:
    """A client of the limiter's actor."""

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


@pytest.mark.parametrize(
    "error",
    [ModelServiceError("m", 503, "busy"), ModelServiceError("m", None, "lost"), ConnectionError(), TimeoutError(), Busy()],
)
async def test_failures_that_may_pass_are_made_good(error: Exception) -> None:
    fixture, model = ClientFixture(), Playing(error, "hi")
    assert await fixture.ask(model) == ["hi", "hi"]
    assert (await fixture.counts())["retried"] == 1


@pytest.mark.parametrize("script", [ModelServiceError("m", 400, "wrong"), ValueError("wrong"), ("half", ConnectionError("cut"))])
async def test_others_and_those_in_the_middle_of_an_answer_are_not(script: Any) -> None:
    fixture, model = ClientFixture(), Playing(script, "never")
    with pytest.raises(Exception, match=r"wrong|cut"):
        await fixture.ask(model)
    assert model.asked == 1
    counts = await fixture.counts()
    assert (counts["running"], counts["retried"], counts["retries_refused"]) == (0, 0, 0)


async def test_what_the_service_advises_is_what_is_waited() -> None:
    fixture = ClientFixture()
    with pytest.raises(ModelServiceError, match="later"):
        await fixture.ask(Playing(ModelServiceError("m", 429, "later", 3_600.0)))
    assert await fixture.ask(Playing(ModelServiceError("m", 429, "soon", 0.0), "hi")) == ["hi", "hi"]


async def test_who_leaves_in_the_middle_of_an_answer_gives_its_permit_back() -> None:
    fixture = ClientFixture(max_concurrency=1)
    async with aclosing(cast(Any, fixture.client.limited(Playing("hi"), KEY).generate(LlmRequest(), stream=True))) as responses:
        await anext(responses)
        assert (await fixture.counts())["running"] == 1
    assert (await fixture.counts())["running"] == 0


async def test_the_model_that_a_request_names_is_the_one_that_counts() -> None:
    fixture = ClientFixture()
    assert await fixture.ask(Playing("hi"), LlmRequest(model="other")) == ["hi", "hi"]
    assert await fixture.counts() == {}
    await fixture.ask(ScriptedModel(["hi"]), LlmRequest(model="playing"))
    assert (await fixture.counts())["granted"] == 1


async def test_a_model_is_asked_without_its_own_repetitions() -> None:
    class Stubborn(Playing):
        def once(self) -> Model:
            return Playing("once")

    fixture = ClientFixture()
    assert await fixture.ask(Stubborn("twice")) == ["once", "once"]
    assert await fixture.ask(Stubborn("twice"), LlmRequest(model="other")) == ["twice", "twice"]


async def test_without_its_actor_calls_go_through_and_fail_as_they_do(caplog: pytest.LogCaptureFixture) -> None:
    fixture = ClientFixture()
    fixture.client = LimiterClient(Ref(Lost()), fixture.limits)
    assert await fixture.ask(Playing("hi")) == ["hi", "hi"]
    with pytest.raises(ConnectionError):
        await fixture.ask(Playing(ConnectionError()))
    await fixture.client.close()
    assert "nobody limits model 'playing' any more" in caplog.text

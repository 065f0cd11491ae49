"""A model that falls back on others, and one of a user's own on the base class."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import Content, LlmAgent, LlmRequest, LlmResponse, ModelLimits, RunConfig
from actors.errors import DefinitionError, ModelConfigurationError, ModelResponseError, ModelServiceError, UnknownModelError
from runtime import Settings
from runtime.models import registry
from runtime.models.fallback import FallbackModel
from runtime.models.registry import missing, sdks
from runtime.models.service import ServiceModel
from tests.support.runtimes import Deploy

HELLO = LlmRequest(model="of the fallback", contents=[Content.of_text("hello")])


class Own(ServiceModel[list[str]]):
    """Answers with its name, or raises what it was given, in turn."""

    key_variables = ("OWN_KEY",)

    def __init__(self, model: str, *outcomes: Exception | None, pieces: int = 1, retries: int = 0) -> None:
        super().__init__(model=model, api_key="k", retries=retries, retry_initial_delay_s=0.0)
        self.outcomes = list(outcomes)
        self.pieces = pieces
        self.asked: list[str] = []
        self.closed = 0

    def connect(self) -> list[str]:
        return []

    async def disconnect(self, client: list[str]) -> None:
        self.closed += 1

    async def call(self, client: list[str], request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.asked.append(request.model)
        client.append(request.model)
        for _ in range(self.pieces - 1):
            yield LlmResponse(content=Content.of_text("…", "model"))
        if self.outcomes and (error := self.outcomes.pop(0)) is not None:
            raise error
        yield LlmResponse(content=Content.of_text(f"I am {self.model}", "model"), finish_reason="STOP")


async def answers(model: FallbackModel | Own, *, stream: bool = False) -> list[str]:
    return [response.content.text if response.content else "" async for response in model.generate(HELLO, stream=stream)]


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("gone"),
        TimeoutError(),
        ModelServiceError("a", None, "gone"),
        *(ModelServiceError("a", status, "no") for status in (402, 429, 500, 502, 503, 504, 529)),
        ModelResponseError("a", "nonsense"),
    ],
    ids=lambda error: f"{type(error).__name__} {getattr(error, 'code', '')}",
)
async def test_the_next_model_is_asked_when_one_is_down_or_over_its_limit(error: Exception) -> None:
    first, second = Own("a", error), Own("b")
    assert await answers(FallbackModel([first, second])) == ["I am b"]
    assert (first.asked, second.asked) == (["a"], ["b"])


@pytest.mark.parametrize("error", [ModelServiceError("a", 401, "wrong key"), ModelServiceError("a", 400, "no"), KeyError("bug")])
async def test_other_errors_are_not_hidden(error: Exception) -> None:
    second = Own("b")
    with pytest.raises(type(error)):
        await answers(FallbackModel([Own("a", error), second]))
    assert second.asked == []


async def test_the_error_of_the_last_is_the_error_of_all() -> None:
    model = FallbackModel([Own("a", ConnectionError()), Own("b", ModelServiceError("b", 503, "down as well"))])
    with pytest.raises(ModelServiceError, match="down as well"):
        await answers(model)


async def test_an_answer_that_was_streamed_in_part_is_not_begun_again() -> None:
    second = Own("b")
    model = FallbackModel([Own("a", ConnectionError(), pieces=2), second])
    with pytest.raises(ModelResponseError, match="broke off in the middle"):
        await answers(model, stream=True)
    assert second.asked == []
    # What was not shown can be begun again.
    assert await answers(FallbackModel([Own("a", ConnectionError(), pieces=2), second])) == ["I am b"]


async def test_names_are_asked_once_before_the_last_and_objects_as_often_as_they_say() -> None:
    patient = Own("a", ConnectionError(), ConnectionError(), retries=2)
    assert await answers(FallbackModel([patient, Own("b")])) == ["I am a"]
    assert len(patient.asked) == 3
    impatient = Own("a", ConnectionError(), retries=2)
    assert await answers(FallbackModel([impatient, Own("b")]).once()) == ["I am b"]
    assert len(impatient.asked) == 1


def test_what_is_missing_is_told_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    model = FallbackModel(["gemini-2.5-flash", "openai/gpt-5"])
    assert model.name == "gemini-2.5-flash or openai/gpt-5"
    assert str(missing(model)).startswith("openai/gpt-5: there is no API key: set OPENAI_API_KEY")
    assert sdks(model) == ("google.genai", "openai")
    assert pickle.loads(pickle.dumps(model)).name == model.name


def test_what_is_no_list_of_models_is_refused() -> None:
    with pytest.raises(DefinitionError, match="at least two models"):
        FallbackModel(["gemini-2.5-flash"])
    with pytest.raises(DefinitionError, match="at least two models"):
        FallbackModel("gemini-2.5-flash")
    with pytest.raises(UnknownModelError, match="Did you mean 'openai/gpt-5'"):
        FallbackModel(["gemini-2.5-flash", "gpt-5"])
    with pytest.raises(DefinitionError, match="generate"):
        FallbackModel(["gemini-2.5-flash", 3])  # type: ignore[list-item]


def test_each_model_has_the_limits_of_its_own_name(tmp_path: Path) -> None:
    first, second = Own("a", ModelServiceError("a", 503, "down")), Own("b")
    limits = {"a": ModelLimits(max_concurrency=1, max_retries=0), "b": ModelLimits(max_concurrency=1)}
    root = LlmAgent(name="root", model=FallbackModel([first, second]))
    with Deploy("local", tmp_path)(root, settings=Settings(model_limits=limits)) as rt:
        assert rt.run(user_id="ada", session_id="s", message="hello").result().text == "I am b"
        assert rt.run(user_id="ada", session_id="s", message="hello").result().text == "I am a"
        granted = {name: counts["granted"] for name, counts in rt.statistics().models.items()}
        running = {counts["running"] for counts in rt.statistics().models.values()}
    assert granted == {"a": 2, "b": 1}
    assert running == {0}
    assert (first.closed, second.closed) == (1, 1)


def test_a_limited_model_that_is_named_is_asked_once_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Own("gemini-x", ModelServiceError("a", 429, "over the limit", 100.0)), Own("b")
    monkeypatch.setattr(registry, "resolve", lambda agent, model: first if model == "gemini-x" else model)
    root = LlmAgent(name="root", model=FallbackModel(["gemini-x", second]))
    limits = {"*": ModelLimits(max_concurrency=1)}
    with Deploy("local", tmp_path)(root, settings=Settings(model_limits=limits)) as rt:
        assert rt.run(user_id="ada", session_id="s", message="hello").result().text == "I am b"
    assert first.asked == ["gemini-x"]


async def test_a_model_of_ones_own_gets_pieces_joined_and_calls_repeated() -> None:
    model = Own("a", None, pieces=3)
    assert await answers(model, stream=True) == ["…", "…", "I am a", "……I am a"]
    again = Own("a", ConnectionError("gone"), TimeoutError(), retries=2)
    assert await answers(again) == ["I am a"]
    assert len(again.asked) == 3
    with pytest.raises(ModelServiceError, match="could not be reached: ConnectionError: gone"):
        await answers(Own("a", ConnectionError("gone")))


async def test_what_a_model_of_ones_own_lacks_is_told_before_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(Own):
        sdk = "a_package_that_is_not_here"
        extra = "own[all]"

    with pytest.raises(ModelConfigurationError, match=r"a_package_that_is_not_here is not installed: pip install 'own\[all\]'"):
        await answers(Elsewhere("a"))
    monkeypatch.delenv("OWN_KEY", raising=False)
    keyless = Own("a")
    keyless._api_key = None
    assert missing(keyless) == "there is no API key: set OWN_KEY where the agents run, or pass api_key=…"
    monkeypatch.setenv("OWN_KEY", "k")
    assert missing(keyless) is None


async def test_a_status_of_any_client_is_understood() -> None:
    class Refused(Exception):
        status_code = 503

    with pytest.raises(ModelServiceError) as caught:
        await answers(Own("a", Refused("closed")))
    assert (caught.value.code, str(caught.value)) == (503, "model 'of the fallback': the service failed with status 503: closed")


def test_a_streaming_turn_shows_the_pieces_of_the_model_that_answers(tmp_path: Path) -> None:
    root = LlmAgent(name="root", model=FallbackModel([Own("a", ConnectionError()), Own("b", pieces=2)]))
    with Deploy("local", tmp_path)(root) as rt:
        events = list(rt.run(user_id="ada", session_id="s", message="hello", run_config=RunConfig(streaming="sse")))
    assert [(bool(event.partial), event.text) for event in events] == [(True, "…"), (True, "I am b"), (False, "…I am b")]

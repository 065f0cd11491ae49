"""The model of a name, and what this process lacks to use it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from actors.errors import UnknownModelError
from actors.interfaces.model import Model
from actors.messages.llm import LlmRequest, LlmResponse
from actors.testing import PatternModel
from runtime.models.fallback import FallbackModel
from runtime.models.gemini import Gemini
from runtime.models.openai import OpenAIModel
from runtime.models.registry import FACTORIES, ModelPool, check_of, missing, resolve

VARIABLES = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_USE_ENTERPRISE",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
]


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


class Echo:
    """A user's own model."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        yield LlmResponse()


@pytest.mark.parametrize(
    "name", ["gemini-2.5-flash", "models/gemini-x", "tunedModels/mine", "projects/p/locations/l/endpoints/1"]
)
def test_every_form_of_a_gemini_name_is_known(name: str) -> None:
    model = resolve("writer", name)
    assert isinstance(model, Gemini)
    assert model.model == name


def test_an_unknown_name_is_refused_with_what_would_be_right() -> None:
    with pytest.raises(UnknownModelError, match="no model is known by the name 'gpt-17'"):
        missing("gpt-17")
    with pytest.raises(UnknownModelError) as caught:
        resolve("writer", "gpt-17")
    message = str(caught.value)
    assert message.startswith("agent 'writer': no model is known by the name 'gpt-17'.")
    assert all(prefix in message for prefix in FACTORIES)
    assert "generate(request, *, stream)" in message


@pytest.mark.parametrize("service", ["openai", "ollama", "openrouter", "groq", "mistral", "deepseek", "xai", "together"])
def test_names_of_other_services_are_known_and_say_which_key_they_need(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = f"{service.upper()}_API_KEY"
    monkeypatch.delenv(variable, raising=False)
    assert isinstance(resolve("writer", f"{service}/some/model"), OpenAIModel)
    reason = missing(f"{service}/some/model")
    assert reason is None if service == "ollama" else str(reason).startswith(f"there is no API key: set {variable} where")
    monkeypatch.setenv(variable, "k")
    assert missing(f"{service}/some/model") is None


def test_a_missing_package_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.models.service.find_spec", lambda name: None)
    assert str(missing("openai/gpt-5")).endswith("pip install 'raygrove[openai]' where the agents run")
    assert str(missing("anthropic/claude")).endswith("pip install 'raygrove[anthropic]' where the agents run")


@pytest.mark.parametrize(
    ("name", "right"), [("gpt-5", "openai/gpt-5"), ("claude-opus", "anthropic/claude-opus"), ("gemni-2.5-flash", "gemini")]
)
def test_a_name_that_is_nearly_right_is_told_the_right_one(name: str, right: str) -> None:
    with pytest.raises(UnknownModelError, match=f"Did you mean '{right}'"):
        resolve("writer", name)


def test_agents_that_name_the_same_model_share_it() -> None:
    pool = ModelPool()
    assert pool.resolve("a", "openai/gpt-5") is pool.resolve("b", "openai/gpt-5")
    assert pool.resolve("a", "openai/gpt-5") is not pool.resolve("b", "openai/gpt-5-mini")


def test_any_object_that_generates_is_a_model() -> None:
    echo = Echo()
    assert resolve("writer", echo) is echo
    assert missing(echo) is None


def test_an_object_that_does_not_generate_is_refused() -> None:
    with pytest.raises(UnknownModelError, match=r"'object'. It has no `generate`"):
        resolve("writer", object())  # type: ignore[arg-type]


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        FACTORIES["gpt-"] = lambda name: Echo()  # type: ignore[index]


@pytest.mark.parametrize(
    ("model", "variables", "lacks"),
    [
        ("gemini-2.5-flash", {}, ("there is no API key", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI")),
        ("gemini-2.5-flash", {"GOOGLE_API_KEY": "k"}, ()),
        ("gemini-2.5-flash", {"GEMINI_API_KEY": "k"}, ()),
        (Gemini(model="gemini-2.5-flash"), {"GEMINI_API_KEY": "k"}, ()),
        (Gemini(model="gemini-2.5-flash", api_key="k"), {}, ()),
        ("gemini-2.5-flash", {"GOOGLE_GENAI_USE_VERTEXAI": "True"}, ()),
        ("gemini-2.5-flash", {"GOOGLE_GENAI_USE_ENTERPRISE": "True"}, ()),
        # The newer switch goes before the older.
        (
            "gemini-2.5-flash",
            {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_GENAI_USE_ENTERPRISE": "false"},
            ("there is no API key",),
        ),
        ("projects/p/locations/l/endpoints/1", {"GOOGLE_API_KEY": "k"}, ("GOOGLE_GENAI_USE_VERTEXAI=true",)),
    ],
)
def test_what_a_gemini_model_lacks_is_said_with_how_to_give_it(
    model: str | Model, variables: dict[str, str], lacks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    reason = missing(model)
    assert (reason is not None) == bool(lacks)
    assert all(words in str(reason) for words in lacks)


def test_asking_what_is_missing_does_not_load_the_sdk() -> None:
    program = (
        "import sys; from runtime.models.registry import missing; "
        "names = ['gemini-x', 'openai/x', 'anthropic/x']; assert all(map(missing, names)); "
        "assert not {'google.genai', 'openai', 'anthropic', 'httpx2'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


class Acme(OpenAIModel):
    """A class of a user's, which only processes of agents can load."""


class Particular(OpenAIModel):
    """A class that alone knows where its key is."""

    def key(self) -> str | None:
        return "k"


@pytest.mark.parametrize(
    "model", [OpenAIModel("gpt-5", api_key="sk-1"), Gemini(model="gemini-2.5-pro", api_key="sk-1"), Acme("gpt-5", api_key="sk-1")]
)
def test_a_check_travels_without_key_and_class(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pickle.dumps(FallbackModel([model, "ollama/qwen3"]).configuration_check())
    assert b"sk-1" not in packed
    assert __name__.encode() not in packed
    for name in ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert pickle.loads(packed)() is None


def test_a_check_says_what_the_model_would_say_there(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Acme("gpt-5")
    check = check_of(model)
    assert check is not None
    for value in ("", "k"):
        monkeypatch.setenv("OPENAI_API_KEY", value)
        assert check() == model.missing_configuration()
        assert (check() is None) == bool(value)


def test_models_that_only_they_themselves_know_have_no_check() -> None:
    assert check_of(Particular("gpt-5")) is None
    assert check_of(PatternModel([], default="hi")) is None

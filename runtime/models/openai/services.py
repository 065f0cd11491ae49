"""The services that speak Chat Completions and are known by name, and in what they differ."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One service.

    Attributes:
        name: what stands before the slash of its models' names.
        base_url: its endpoint; the environment variable `<NAME>_BASE_URL` overrides it.
        key_variable: the environment variable with its key; "" for a service that needs none.
        max_tokens: its name for the greatest length of an answer.
        takes_schemas: it can bind an answer to a JSON schema; else it promises only JSON, and the instruction holds the schema.
        takes_thoughts: it wants to see what the model thought before a tool call when it sees the call.
        tells_usage_when_asked: it takes `stream_options`, and tells the usage of a stream only with it.
        has_short_ids: ids of calls have to be nine letters or digits.
    """

    name: str
    base_url: str
    key_variable: str
    max_tokens: str = "max_tokens"
    takes_schemas: bool = True
    takes_thoughts: bool = False
    tells_usage_when_asked: bool = True
    has_short_ids: bool = False

    @property
    def url_variable(self) -> str:
        """The environment variable that overrides the endpoint."""
        return f"{self.name.upper()}_BASE_URL"


_KNOWN = (
    Service(
        name="openai",
        base_url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        max_tokens="max_completion_tokens",
    ),
    Service(name="ollama", base_url="http://localhost:11434/v1", key_variable=""),
    Service(name="openrouter", base_url="https://openrouter.ai/api/v1", key_variable="OPENROUTER_API_KEY"),
    Service(name="groq", base_url="https://api.groq.com/openai/v1", key_variable="GROQ_API_KEY"),
    Service(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        key_variable="MISTRAL_API_KEY",
        tells_usage_when_asked=False,
        has_short_ids=True,
    ),
    Service(
        name="deepseek",
        base_url="https://api.deepseek.com",
        key_variable="DEEPSEEK_API_KEY",
        takes_schemas=False,
        takes_thoughts=True,
    ),
    Service(name="xai", base_url="https://api.x.ai/v1", key_variable="XAI_API_KEY"),
    Service(name="together", base_url="https://api.together.xyz/v1", key_variable="TOGETHER_API_KEY"),
)

SERVICES: Mapping[str, Service] = MappingProxyType({service.name: service for service in _KNOWN})
"""Services by the names that begin their models' names."""

OTHER = Service(name="", base_url="", key_variable="")
"""A service that is known by its endpoint only: what nearly all of them take."""


def service_of(model: str) -> tuple[Service, str]:
    """The service that a model's name begins with, and its own name there. Without a known one it is OpenAI's."""
    beginning, slash, rest = model.partition("/")
    if slash and rest and beginning in SERVICES:
        return SERVICES[beginning], rest
    return SERVICES["openai"], model

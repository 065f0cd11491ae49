"""Who makes a model, by the conventions for generative AI, as far as its name tells it."""

from __future__ import annotations

_PROVIDERS = {
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "claude": "anthropic",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "gemini": "gcp.gemini",
    "gpt": "openai",
    "groq": "groq",
    "mistral": "mistral_ai",
    "models": "gcp.gemini",
    "openai": "openai",
    "perplexity": "perplexity",
    "projects": "gcp.vertex_ai",
    "tunedModels": "gcp.gemini",
    "xai": "x_ai",
}
"""By the beginning of a model's name, up to the first `/` or `-`."""

_OF_GOOGLE = ("gcp.gemini", "gcp.vertex_ai")


def provider_of(model: str) -> str:
    """The provider of a model; for one that is not known, the beginning of its name."""
    maker, slash, _ = model.partition("/")
    beginning = maker if slash else model.partition("-")[0]
    return _PROVIDERS.get(beginning, beginning or "_OTHER")


def operation_of(provider: str) -> str:
    """The name of a model call as an operation: Google's is to generate content, any other one to chat."""
    return "generate_content" if provider in _OF_GOOGLE else "chat"

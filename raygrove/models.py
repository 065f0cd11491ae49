"""Models as objects, for options that a name does not set. An SDK is loaded at the first call of a model."""

from runtime.models.anthropic import AnthropicModel
from runtime.models.fallback import FallbackModel
from runtime.models.gemini import Gemini
from runtime.models.openai import OpenAIModel
from runtime.models.service import ServiceModel

__all__ = ["AnthropicModel", "FallbackModel", "Gemini", "OpenAIModel", "ServiceModel"]

"""Language models behind their own SDKs."""

from __future__ import annotations

from typing import Any

from actors.messages.content import Content, register_to_genai


def to_genai(content: Content) -> Any:
    """The `google.genai.types.Content` that says the same. The first call loads the SDK.

    Raises:
        pydantic.ValidationError: a dictionary that only passes through us is not what the SDK expects in that field.
    """
    # Loading the SDK takes a second, which only programs that use it should pay.
    from runtime.models import genai_types

    return genai_types.to_genai(content)


register_to_genai(to_genai)

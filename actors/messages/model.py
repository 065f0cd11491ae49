"""What an LLM agent asks of a model, and what it gets back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.messages.content import Content
from actors.messages.event import Usage


class FunctionDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the model sees it. `parameters` is a JSON schema of an object; None for a tool without arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class LlmRequest(msgspec.Struct, kw_only=True):
    """One model call. A before_model callback may change it.

    Attributes:
        model: the name of the model, "" for models that have none.
        agent: the agent that asks.
        contents: the conversation, oldest first. The list is not changed by anybody once it is in a request.
        system_instruction: "" when there is none.
        tools: the declarations of all tools, which go into one tool entry.
        config: fields of google-genai's GenerateContentConfig by their Python names.
        output_schema: JSON schema of the answer, when one is wanted.
    """

    model: str = ""
    agent: str = ""
    contents: Sequence[Content] = ()
    system_instruction: str = ""
    tools: Sequence[FunctionDeclaration] = ()
    config: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None


class LlmResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer of a model, or with `partial` a piece of it. `content` None: the model returned nothing."""

    content: Content | None = None
    partial: bool = False
    finish_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: Usage | None = None
    custom_metadata: dict[str, Any] | None = None

"""The request of an LLM agent to a model, and the response."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.content import Content
from actors.messages.event import Usage
from actors.messages.json_types import JsonObject
from actors.messages.shown import Shown


class FunctionDeclaration(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the model sees it. `parameters` is a JSON schema of an object; None for a tool without arguments."""

    name: str
    description: str = ""
    parameters: JsonObject | None = None


class LlmRequest(Shown, msgspec.Struct, kw_only=True):
    """One model call. A before_model callback may change it.

    Attributes:
        model: the name of the model; "" for a model object without one.
        agent: the agent that calls.
        contents: the conversation, oldest first. To change it, give the request another list: this one may be shared.
        system_instruction: the system instruction; "" without one.
        tools: the declarations of all tools.
        config: fields of google-genai's GenerateContentConfig, by their Python names.
        output_schema: the JSON schema that the response has to fit; None for free text.
    """

    model: str = ""
    agent: str = ""
    contents: Sequence[Content] = ()
    system_instruction: str = ""
    tools: Sequence[FunctionDeclaration] = ()
    config: JsonObject = {}
    output_schema: JsonObject | None = None


class LlmResponse(Shown, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A response of a model, or with `partial` a part of one that is streamed.

    Attributes:
        content: what the model said or called; None when it returned nothing.
        partial: True for a part of a streamed response; the complete one follows.
        finish_reason: why the model stopped, as its service sent it.
        error_code: the reason why there is no content, when the service gave one.
        error_message: the service's explanation.
        usage: tokens of the call; None when the service did not say.
        custom_metadata: a JSON object that is stored on the event of the response, for instance the sources of a search.
    """

    content: Content | None = None
    partial: bool = False
    finish_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: Usage | None = None
    custom_metadata: JsonObject | None = None

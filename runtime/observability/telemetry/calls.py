"""Model calls and tool calls of one run, as spans below that of the run; with their content where the environment asks for it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Self

import msgspec
from opentelemetry.context import attach, detach
from opentelemetry.trace import Span, SpanKind, Tracer, set_span_in_context

from actors.interfaces.telemetry import BudgetTold, ModelCallSpan, RunTelemetry, ToolCallSpan
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import LlmRequest, LlmResponse
from actors.rules.traceparent import SpanPlace
from runtime.observability.catalogue import token_counts
from runtime.observability.telemetry.spans import Attributes, Histograms, context_of, end_span, start_span, traceparent_of

logger = logging.getLogger(__name__)

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


_SETTINGS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_output_tokens": "gen_ai.request.max_tokens",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
}


class _Call:
    """A span that is current inside of a block, and ends with it."""

    def __init__(self, span: Span, *, captures: bool) -> None:
        self._span = span
        self._captures = captures
        self._began_s = time.perf_counter()
        self._error = ""
        self._description = ""

    def __enter__(self) -> Self:
        self._token = attach(set_span_in_context(self._span))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        detach(self._token)
        if error is not None:
            self.failed(error)
        self._record(time.perf_counter() - self._began_s)
        end_span(self._span, self._error, self._description)

    def failed(self, error: BaseException) -> None:
        """Note an error: by its class, and by its text only where content may be seen."""
        self._error = type(error).__name__
        if self._captures:
            self._description = str(error)

    def _record(self, took_s: float) -> None:
        raise NotImplementedError

    def _with_error(self, attributes: Attributes) -> Attributes:
        return {**attributes, "error.type": self._error} if self._error else attributes


class OtelModelCall(_Call, ModelCallSpan):
    """A model call under way."""

    def __init__(self, span: Span, histograms: Histograms, attributes: Attributes, *, streams: bool, captures: bool) -> None:
        super().__init__(span, captures=captures)
        self._histograms = histograms
        self._attributes = attributes
        self._streams = streams
        self._chunk_s = 0.0

    def chunk(self) -> None:
        """A part of a streamed response has come."""
        if not self._streams:
            return
        now_s = time.perf_counter()
        if self._chunk_s:
            self._histograms.next_chunk.record(now_s - self._chunk_s, self._attributes)
        else:
            took_s = now_s - self._began_s
            self._span.set_attribute("gen_ai.response.time_to_first_chunk", took_s)
            self._histograms.first_chunk.record(took_s, self._attributes)
        self._chunk_s = now_s

    def answered(self, response: LlmResponse) -> None:
        """The complete response has come."""
        span, usage = self._span, response.usage
        if response.finish_reason:
            span.set_attribute("gen_ai.response.finish_reasons", [response.finish_reason.lower()])
        if response.error_code:
            self._error = response.error_code
        if usage is not None:
            given, said = token_counts(usage)
            counts = {
                "gen_ai.usage.input_tokens": given,
                "gen_ai.usage.output_tokens": said,
                "gen_ai.usage.reasoning.output_tokens": usage.thoughts_token_count or 0,
                "gen_ai.usage.cache_read.input_tokens": usage.cached_content_token_count or 0,
            }
            span.set_attributes({name: count for name, count in counts.items() if count})
            for kind, number in (("input", given), ("output", said)):
                if number:
                    self._histograms.tokens.record(number, {**self._attributes, "gen_ai.token.type": kind})
        if self._captures and span.is_recording():
            span.set_attributes(response_content(response))

    def _record(self, took_s: float) -> None:
        self._histograms.model_call.record(took_s, self._with_error(self._attributes))


class OtelToolCall(_Call, ToolCallSpan):
    """A tool call under way."""

    def __init__(
        self, span: Span, histograms: Histograms, attributes: Attributes, over: Callable[[], object], *, captures: bool
    ) -> None:
        super().__init__(span, captures=captures)
        self._histograms = histograms
        self._attributes = attributes
        self._over = over

    def answered(self, result: JsonValue) -> None:
        """The tool has returned, or a callback in its place."""
        if self._captures and self._span.is_recording():
            self._span.set_attribute("gen_ai.tool.call.result", as_json(result))

    def _record(self, took_s: float) -> None:
        self._over()
        self._histograms.tool_call.record(took_s, self._with_error(self._attributes))


class OtelRun(RunTelemetry):
    """Makes spans and metrics of what a run does.

    Args:
        above: the run's span; None: it has none, and its calls begin traces.
        session_id: the conversation.
    """

    def __init__(self, tracer: Tracer, histograms: Histograms, above: SpanPlace | None, agent: str, session_id: str) -> None:
        self._tracer = tracer
        self._histograms = histograms
        self._above = above
        self._agent = agent
        self._session_id = session_id
        self._captures = is_captured()
        self._model_calls = 0
        self._tool_calls = 0
        self._calls: dict[str, Span] = {}
        self._budgets: list[Attributes] = []

    def enter(self) -> None:
        """The running task is that of the run: its context, which ends with it, has the run's span."""
        if self._above is not None:
            attach(context_of(self._above))

    def model_call(self, request: LlmRequest, model: str, *, stream: bool) -> OtelModelCall:
        """A model call goes on inside the block."""
        self._model_calls += 1
        model = request.model or model
        provider = provider_of(model)
        operation = operation_of(provider)
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }
        told: dict[str, str | bool | int | float] = {
            **attributes,
            "gen_ai.agent.name": self._agent,
            "gen_ai.conversation.id": self._session_id,
            "gen_ai.request.stream": stream,
        }
        config = request.config if isinstance(request.config, dict) else {}
        for setting, name in _SETTINGS.items():
            if isinstance(config.get(setting), int | float):
                told[name] = config[setting]
        if request.output_schema is not None:
            told["gen_ai.output.type"] = "json"
        span = start_span(self._tracer, f"{operation} {model}", told, above=self._above, kind=SpanKind.CLIENT)
        self._add_budgets(span)
        if self._captures and span.is_recording():
            span.set_attributes(request_content(request))
        return OtelModelCall(span, self._histograms, attributes, streams=stream, captures=self._captures)

    def tool_call(self, call: FunctionCall, description: str) -> OtelToolCall:
        """A tool call goes on inside the block."""
        self._tool_calls += 1
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.name, "gen_ai.agent.name": self._agent}
        told = {
            **attributes,
            "gen_ai.tool.type": "function",
            **({"gen_ai.tool.description": description} if description else {}),
            "gen_ai.tool.call.id": call.id or "",
            "gen_ai.conversation.id": self._session_id,
        }
        if self._captures:
            told["gen_ai.tool.call.arguments"] = as_json(call.args or {})
        span = start_span(self._tracer, f"execute_tool {call.name}", told, above=self._above)
        self._calls[call.id or ""] = span
        over = partial(self._calls.pop, call.id or "", None)
        return OtelToolCall(span, self._histograms, attributes, over, captures=self._captures)

    def budget(self, told: BudgetTold) -> None:
        """A budget has been found used up, or nearly so: an event of the model call that follows, or of a span of its own."""
        known = {name: value for name, value in told._asdict().items() if value}
        self._budgets.append({f"raygrove.budget.{name}": value for name, value in known.items()})
        if told.action in ("stop", "ask", "leave_out"):
            # The call is not made.
            self._end_budgets()

    def _add_budgets(self, span: Span) -> None:
        for attributes in self._budgets:
            span.add_event("raygrove.budget", attributes)
        self._budgets = []

    def _end_budgets(self) -> None:
        if self._budgets:
            span = start_span(self._tracer, "raygrove.budget", {"gen_ai.agent.name": self._agent}, above=self._above)
            self._add_budgets(span)
            end_span(span)

    def traceparent_of(self, call_id: str) -> str:
        """The span of a tool call under way."""
        span = self._calls.get(call_id)
        return traceparent_of(span) if span is not None else ""

    def end_run(self) -> None:
        """Count the calls of the run."""
        self._end_budgets()
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": self._agent}
        self._histograms.calls_of_models.record(self._model_calls, attributes)
        self._histograms.calls_of_tools.record(self._tool_calls, attributes)


VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that opts in, by the conventions for generative AI."""

_ON_SPANS = ("true", "1", "span_only", "span_and_event")


def is_captured() -> bool:
    """Whether the environment wants content on spans."""
    return os.environ.get(VARIABLE, "").strip().lower() in _ON_SPANS


def request_content(request: LlmRequest) -> dict[str, str]:
    """The request to a model."""
    told = {"gen_ai.input.messages": as_json([_message(content) for content in request.contents])}
    if request.system_instruction:
        told["gen_ai.system_instructions"] = as_json([{"type": "text", "content": request.system_instruction}])
    if request.tools:
        told["gen_ai.tool.definitions"] = as_json(
            [
                {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
                for tool in request.tools
            ]
        )
    return told


def response_content(response: LlmResponse) -> dict[str, str]:
    """The content of a model's response, as spans have it."""
    if response.content is None:
        return {}
    message = {**_message(response.content), "finish_reason": (response.finish_reason or "stop").lower()}
    return {"gen_ai.output.messages": as_json([message])}


def as_json(value: JsonValue) -> str:
    """A value as JSON; what has no JSON form as its text. It does not raise."""
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except Exception as error:
        # Arguments and results are users' objects.
        logger.debug("content has no JSON form: %s", error)
        return '""'


def _message(content: Content) -> JsonObject:
    role = {"model": "assistant", None: "user"}.get(content.role, content.role)
    return {"role": role, "parts": list(_parts(content.parts))}


def _parts(parts: Iterable[Part]) -> Iterable[JsonObject]:
    for part in parts:
        if part.text:
            yield {"type": "reasoning" if part.thought else "text", "content": part.text}
        if (call := part.function_call) is not None:
            yield {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args}
        if (response := part.function_response) is not None:
            yield {"type": "tool_call_response", "id": response.id, "response": response.response}
        if (blob := part.inline_data) is not None:
            # The data stays out: a span is no place for megabytes.
            yield {"type": "blob", "mime_type": blob.mime_type, "size": len(blob.data)}
        if (file := part.file_data) is not None:
            yield {"type": "uri", "mime_type": file.mime_type, "uri": file.file_uri}

"""Agents' actors talk to services of several makers with the unmodified clients. The services are local servers."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack
from itertools import count

import pytest
from pydantic import BaseModel

from actors import Content, LlmAgent, LlmRequest, LlmResponse, ModelLimits, RunConfig, tool
from actors.errors import ModelConfigurationError, ModelServiceError
from actors.interfaces.model import Model, name_of
from actors.messages.content import Blob, Part
from actors.testing import PatternModel
from runtime.models.anthropic import AnthropicModel
from runtime.models.fallback import FallbackModel
from runtime.models.gemini import Gemini
from runtime.models.openai import OpenAIModel
from runtime.models.service import ServiceModel
from runtime.settings import Settings
from tests.support.runtimes import Deploy, author_texts, run_turn, stored, stored_state
from tests.support.servers.chat_server import ChatServer, MessagesServer, chat, message, said, thought, use
from tests.support.servers.gemini_server import Failure, GeminiServer, Json, Reply, Request

SSE = RunConfig(streaming="sse")
KEYS = [
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "ACME_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GROQ_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_BASE_URL",
    "GROQ_BASE_URL",
]


@tool
def lookup_order(order_id: str) -> dict[str, str]:
    """Look an order up."""
    return {"order": order_id, "status": "late"}


class Verdict(BaseModel):
    """A judgement."""

    is_late: bool
    reason: str = ""


def as_chat(request: Request) -> Reply:
    """A desk over Chat Completions: the root transfers, billing looks up and answers, the judge judges."""
    messages = request.body["messages"]
    tools = {each["function"]["name"] for each in request.body.get("tools", ())}
    if "response_format" in request.body:
        return chat('{"is_late": true, "reason": "rain"}')
    if messages[-1]["role"] == "tool":
        return chat("Order 42 is late.", usage={"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25})
    if "lookup_order" in tools:
        if "Thanks" in str(messages[-1]["content"]):
            return chat("You are welcome.")
        return chat("I look.", ("lookup_order", {"order_id": "42"}), reasoning_content="orders are in the book")
    return chat(None, ("transfer_to_agent", {"agent_name": "chat_billing"}))


def as_message(request: Request) -> Reply:
    """The same desk over Messages."""
    last = request.body["messages"][-1]["content"]
    tools = {each["name"] for each in request.body.get("tools", ())}
    if "output_config" in request.body:
        return message(said('{"is_late": true, "reason": "rain"}'))
    if last[0]["type"] == "tool_result":
        return message(said("Order 42 is late."), usage={"input_tokens": 20, "output_tokens": 5})
    if "lookup_order" in tools:
        if "Thanks" in str(last):
            return message(said("You are welcome."))
        look = use("lookup_order", {"order_id": "42"})
        return message(thought("orders are in the book", "c2lnbmVk+/=="), said("I look."), look)
    return message(use("transfer_to_agent", {"agent_name": "messages_billing"}))


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in KEYS:
        monkeypatch.setenv(variable, "")


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def desk(name: str, model: str) -> LlmAgent:
    """A concierge with a clerk, all of one model."""
    billing = LlmAgent(name=f"{name}_billing", description="bills", instruction="Be brief.", tools=[lookup_order])
    return LlmAgent(name=name, description="a desk", model=model, instruction="Greet.", sub_agents=[billing])


def judge(name: str, model: str) -> LlmAgent:
    return LlmAgent(name=name, description="judges", model=model, output_schema=Verdict, output_key=name)


def bodies(server: GeminiServer) -> list[Json]:
    return [request.body for request in server.requests]


@pytest.mark.full
def test_trees_of_other_models_answer_by_name_with_transfers_tools_schemas_limits_and_fallbacks(
    deploy: Deploy, servers: ExitStack
) -> None:
    native = servers.enter_context(MessagesServer(as_message))
    chats = servers.enter_context(ChatServer(as_chat))
    down = servers.enter_context(ChatServer(lambda request: Failure(503)))
    tries = count()
    busy = servers.enter_context(ChatServer(lambda request: Failure(429) if next(tries) < 2 else chat("at last")))
    refusing = servers.enter_context(ChatServer(lambda request: Failure(401, "Incorrect API key provided: wro…ng")))
    env = {
        "GROQ_API_KEY": "key-of-groq",
        "GROQ_BASE_URL": chats.base_url,
        "ANTHROPIC_API_KEY": "key-of-anthropic",
        "ANTHROPIC_BASE_URL": native.url,
    }
    names = ["chat", "messages", "chat_judge", "messages_judge", "fallback", "busy", "refused"]
    unlucky = FallbackModel([OpenAIModel("big", base_url=down.base_url, retries=0), "groq/llama-3.3"])
    patient = OpenAIModel("patient", base_url=busy.base_url, retry_initial_delay_s=0.01)
    root = LlmAgent(
        name="root",
        model=PatternModel([(f"^{name}:", {"transfer": name}) for name in names]),
        sub_agents=[
            desk("chat", "groq/llama-3.3"),
            desk("messages", "anthropic/claude-sonnet"),
            judge("chat_judge", "groq/llama-3.3"),
            judge("messages_judge", "anthropic/claude-sonnet"),
            LlmAgent(name="fallback", description="falls", model=unlucky, tools=[lookup_order]),
            LlmAgent(name="busy", description="is busy", model=patient),
            LlmAgent(name="refused", description="no", model=OpenAIModel("no", base_url=refusing.base_url, api_key="wrong")),
        ],
    )
    settings = Settings(env=env, model_limits={"groq/*": ModelLimits(max_concurrency=2)})
    with deploy(root, settings=settings) as rt:
        # Chat Completions: transfer, tool, a later turn; the thought is in the log, and not in what goes back.
        assert author_texts(run_turn(rt, "chat: where is order 42?", "chat", run_config=SSE))[-1] == (
            "chat_billing",
            "Order 42 is late.",
        )
        assert author_texts(run_turn(rt, "Thanks", "chat")) == [("chat_billing", "You are welcome.")]
        answered = next(event for event in stored(rt, "chat") if event.text == "Order 42 is late.")
        assert answered.finish_reason == "STOP"
        assert answered.usage is not None
        assert answered.usage.total_token_count == 25
        looked = next(event for event in stored(rt, "chat") if event.text == "I look.")
        assert looked.content is not None
        assert looked.content.parts[0] == Part(text="orders are in the book", thought=True)
        last = bodies(chats)[-1]
        assert last["model"] == "llama-3.3"
        # The service numbers calls, and the transfer had the same number.
        [call_id] = [call.id for call in looked.function_calls()]
        assert call_id is not None
        assert call_id.startswith("call_0-")
        call = {"id": call_id, "type": "function", "function": {"name": "lookup_order", "arguments": '{"order_id":"42"}'}}
        assert last["messages"][-4:] == [
            {"role": "assistant", "content": "I look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": '{"order":"42","status":"late"}'},
            {"role": "assistant", "content": "Order 42 is late."},
            {"role": "user", "content": "Thanks"},
        ]
        assert chats.requests[0].headers["authorization"] == "Bearer key-of-groq"

        # Messages: the same, and the thought goes back with its signature.
        assert author_texts(run_turn(rt, "messages: where is order 42?", "messages", run_config=SSE))[-1] == (
            "messages_billing",
            "Order 42 is late.",
        )
        assert author_texts(run_turn(rt, "Thanks", "messages")) == [("messages_billing", "You are welcome.")]
        assert "key-of-anthropic" in str(native.requests[0].headers)  # its place changes with the version of the client
        [look] = [each for each in bodies(native)[-1]["messages"] if each["content"][0]["type"] == "thinking"]
        [call_id] = [call.id for event in stored(rt, "messages") if event.text == "I look." for call in event.function_calls()]
        assert look["content"] == [
            {"type": "thinking", "thinking": "orders are in the book", "signature": "c2lnbmVk+/=="},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": call_id, "name": "lookup_order", "input": {"order_id": "42"}},
        ]

        # Structured output, and an image.
        image = Content(role="user", parts=[Part(text="judge this"), Part(inline_data=Blob(data=b"png", mime_type="image/png"))])
        for name in ("chat_judge", "messages_judge"):
            run_turn(rt, f"{name}: is it late?", name)
            run_turn(rt, image, name)
            assert stored_state(rt, name)[name] == {"is_late": True, "reason": "rain"}
        assert bodies(chats)[-1]["messages"][-1]["content"] == [
            {"type": "text", "text": "judge this"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
        ]
        assert bodies(native)[-1]["messages"][-1]["content"][1]["source"] == {
            "type": "base64",
            "media_type": "image/png",
            "data": "cG5n",
        }

        # One that is down, one that is busy, and a key that is wrong.
        assert author_texts(run_turn(rt, "fallback: order 42?", "fallback"))[-1] == ("fallback", "Order 42 is late.")
        assert len(down.requests) == 2
        assert author_texts(run_turn(rt, "busy: hello", "busy"))[-1] == ("busy", "at last")
        assert len(busy.requests) == 3
        with pytest.raises(ModelServiceError, match="Incorrect API key"):
            run_turn(rt, "refused: hello", "refused")
        assert stored(rt, "refused")[-1].error_code == "ModelServiceError"
        assert len(refusing.requests) == 1
        assert rt.statistics().models["groq/llama-3.3"]["granted"] == len(chats.requests)


class Acme(ServiceModel[object]):
    """A model of a user's."""

    key_variables = ("ACME_API_KEY",)

    def connect(self) -> object:
        return object()

    async def call(self, client: object, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=Content.of_text(f"{request.model} hears you", role="model"))


class Particular(Acme):
    """A model that alone knows what it needs."""

    def missing_configuration(self) -> str | None:
        return None


OPENAI = "there is no API key: set OPENAI_API_KEY where the agents run, or pass api_key=…"
ANTHROPIC = "there is no API key: set ANTHROPIC_API_KEY where the agents run, or pass api_key=…"
ACME = "there is no API key: set ACME_API_KEY where the agents run, or pass api_key=…"
WITHOUT_KEY: list[tuple[str | Model, str]] = [
    ("openai/gpt-5", f"model 'openai/gpt-5' cannot be used: {OPENAI}"),
    (OpenAIModel("gpt-5"), f"model 'gpt-5' cannot be used: {OPENAI}"),
    ("anthropic/claude-sonnet", f"model 'anthropic/claude-sonnet' cannot be used: {ANTHROPIC}"),
    (AnthropicModel("claude-sonnet"), f"model 'claude-sonnet' cannot be used: {ANTHROPIC}"),
    (Gemini(model="gemini-2.5-pro"), "model 'gemini-2.5-pro' cannot be used: there is no API key: set GOOGLE_API_KEY"),
    (FallbackModel([Acme(model="acme-1", api_key="k"), "openai/gpt-5"]), f"cannot be used: openai/gpt-5: {OPENAI}"),
    (FallbackModel([Particular(model="acme-1"), Acme(model="acme-2")]), f"cannot be used: acme-2: {ACME}"),
    (Acme(model="acme-1"), f"model 'acme-1' cannot be used: {ACME}"),
]


@pytest.mark.parametrize(("model", "reason"), WITHOUT_KEY, ids=[name_of(model) for model, _ in WITHOUT_KEY])
def test_without_a_key_a_turn_is_refused_and_nothing_is_stored(local: Deploy, model: str | Model, reason: str) -> None:
    with local(LlmAgent(name="root", model=model)) as rt:
        with pytest.raises(ModelConfigurationError, match=re.escape(reason)):
            run_turn(rt, "hello")
        assert rt.sessions.get("ada", "s1") is None or stored(rt, "s1") == []

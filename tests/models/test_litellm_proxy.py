"""Whole conversations through litellm's proxy, with a transfer, tools, structured output and streams."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import BaseModel

from actors import LlmAgent, RunConfig, tool
from actors.errors import ModelServiceError
from actors.messages.config import Streaming
from runtime.driver.runtime import Runtime
from runtime.models.anthropic import AnthropicModel
from runtime.models.openai import OpenAIModel
from tests.support.runtimes import Deploy, author_texts, run_turn, stored_state
from tests.support.servers.gemini_server import GeminiServer, Json, Reply, Request, answer, call, text

LITELLM = os.environ.get("LITELLM", "")
START_S = 90.0
KEY = "sk-of-the-test"
PARALLEL = "gemini-2.5-flash"
"""The model that calls two tools at once."""

pytestmark = [
    pytest.mark.skipif(not LITELLM, reason="litellm's proxy has an environment of its own: make test-models"),
    pytest.mark.timeout(300),
]


class Verdict(BaseModel):
    is_late: bool
    reason: str


class Proxy(NamedTuple):
    """The proxy, and the service to which it passes calls on."""

    url: str
    service: GeminiServer


@tool
def lookup_order(order_id: str) -> dict[str, str]:
    """Look an order up."""
    return {"order": order_id, "status": "late"}


@tool
def weather(city: str) -> dict[str, str]:
    """Look at the sky."""
    return {"city": city, "sky": "grey"}


def reply(request: Request) -> Reply:
    """What the service behind the proxy answers, by what it was asked."""
    body = request.body
    last = body["contents"][-1]["parts"]
    config = body.get("generationConfig", {})
    declared = [tool.get("functionDeclarations") or tool.get("function_declarations") or [] for tool in body.get("tools", ())]
    tools = {function["name"] for functions in declared for function in functions}
    if "json" in config.get("response_mime_type", config.get("responseMimeType", "")):
        return text('{"is_late": true, "reason": "rain"}', usage=usage(3, 4))
    answers = [part.get("functionResponse") or part.get("function_response") for part in last]
    if any(answers):
        seen = json.dumps(answers)
        return text(f"The tools say: {'late' in seen} {len(answers)}.", usage=usage(20, 7))
    if "lookup_order" in tools:
        if "Thanks" in request.text:
            return text("You are welcome.", usage=usage(30, 3))
        two = [function("lookup_order", {"order_id": "42"}), function("weather", {"city": "Rome"})]
        return answer({"text": "I look."}, *(two if PARALLEL in request.path else two[:1]), usage=usage(10, 5))
    return call("transfer_to_agent", {"agent_name": "billing"}, usage=usage(10, 5))


def function(name: str, args: Json) -> Json:
    return {"functionCall": {"name": name, "args": args}}


def usage(prompt: int, answered: int) -> Json:
    return {"promptTokenCount": prompt, "candidatesTokenCount": answered, "totalTokenCount": prompt + answered}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("litellm")
    with GeminiServer(reply) as service:
        names = {"desk": PARALLEL, "desk-of-single-calls": "gemini-2.5-pro"}
        entries = [
            {
                "model_name": name,
                "litellm_params": {
                    "model": f"gemini/{model}",
                    "api_key": "key-of-the-service",
                    "api_base": f"{service.url}/models/{model}",
                },
            }
            for name, model in names.items()
        ]
        config = {"model_list": entries, "general_settings": {"master_key": KEY}, "litellm_settings": {"num_retries": 0}}
        (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        port = free_port()
        command = [LITELLM, "--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(port)]
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environ = {**kept, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "*"}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environ, cwd=folder)
            try:
                url = f"http://127.0.0.1:{port}"
                wait_for(f"{url}/health/liveliness", process, folder / "log")
                yield Proxy(url, service)
            finally:
                process.terminate()
                process.wait(30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_s = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < give_up_s:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"the proxy did not start: {log.read_text(encoding='utf-8')[-3000:]}")


def tree(model: OpenAIModel | AnthropicModel) -> LlmAgent:
    billing = LlmAgent(name="billing", description="Orders.", instruction="Be brief.", tools=[lookup_order, weather])
    judge = LlmAgent(name="judge", description="Judges.", output_schema=Verdict, output_key="verdict")
    return LlmAgent(name="concierge", model=model, instruction="Greet.", sub_agents=[billing, judge])


def models(proxy: Proxy, **options: str) -> dict[str, OpenAIModel | AnthropicModel]:
    key = options.get("api_key", KEY)
    return {
        "chat completions": OpenAIModel("desk", base_url=f"{proxy.url}/v1", api_key=key, retries=0),
        # litellm 1.106 writes the arguments of parallel calls into one block when it makes Messages of another service's stream.
        "messages": AnthropicModel("desk-of-single-calls", base_url=proxy.url, api_key=key, retries=0),
    }


@pytest.mark.parametrize("kind", ["chat completions", "messages"])
@pytest.mark.parametrize("streaming", ["none", "sse"])
def test_a_conversation_with_a_transfer_and_two_tools(proxy: Proxy, local: Deploy, kind: str, streaming: Streaming) -> None:
    config = RunConfig(streaming=streaming, max_llm_calls=8)
    with local(tree(models(proxy)[kind])) as rt:
        check_conversation(rt, config, tools=2 if kind == "chat completions" else 1)


def test_the_same_on_ray(proxy: Proxy, local_ray: str, tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(tree(models(proxy)["chat completions"])) as rt:
        check_conversation(rt, RunConfig(streaming="sse", max_llm_calls=8), tools=2)


def check_conversation(rt: Runtime, config: RunConfig, tools: int) -> None:
    events = run_turn(rt, "Where is order 42?", run_config=config)
    assert author_texts(events)[-1] == ("billing", f"The tools say: True {tools}.")
    assert any(event.partial and event.text for event in events) is (config.streaming == "sse")
    whole = [event for event in events if not event.partial]
    assert whole[-1].finish_reason == "STOP"
    assert whole[-1].usage is not None
    assert whole[-1].usage.total_token_count == 27
    called = [call.name for event in whole if event.content for call in event.content.function_calls()]
    assert called == ["transfer_to_agent", "lookup_order", "weather"][: tools + 1]
    assert author_texts(run_turn(rt, "Thanks", run_config=config)) == [("billing", "You are welcome.")]


@pytest.mark.parametrize("kind", ["chat completions", "messages"])
def test_an_answer_in_a_schema(proxy: Proxy, local: Deploy, kind: str) -> None:
    agent = LlmAgent(name="judge", model=models(proxy)[kind], output_schema=Verdict, output_key="verdict")
    with local(agent) as rt:
        run_turn(rt, "Is it late?")
        assert stored_state(rt)["verdict"] == {"is_late": True, "reason": "rain"}


@pytest.mark.parametrize("kind", ["chat completions", "messages"])
def test_a_wrong_key_is_refused(proxy: Proxy, local: Deploy, kind: str) -> None:
    with local(LlmAgent(name="a", model=models(proxy, api_key="sk-wrong")[kind])) as rt:
        with pytest.raises(ModelServiceError) as caught:
            run_turn(rt, "hello")
        assert caught.value.code in (400, 401)

"""The context cache of an App: a model is given what ADK gives it, call by call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.context_cache_config import ContextCacheConfig
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.models.cache_metadata import CacheMetadata
from google.adk.runners import InMemoryRunner
from google.genai import types

from runtime.adk import from_adk
from tests.support.runtimes import Deploy, run_turn

seen: list[Any] = []


class Caching(BaseLlm):  # type: ignore[misc]
    """Answers with a cache from its second call on, and notes what it is given."""

    model: str = "caching"

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        known = llm_request.cache_metadata
        seen.append(
            [
                llm_request.cache_config.ttl_seconds,
                known and [known.cache_name, known.invocations_used, known.fingerprint],
                llm_request.cacheable_contents_token_count,
            ]
        )
        count = len(llm_request.contents)
        fields: dict[str, Any] = {"fingerprint": "f", "contents_count": count}
        if known is not None:
            used = known.invocations_used or 1
            fields |= {"cache_name": "caches/1", "expire_time": 9e9, "invocations_used": used, "created_at": 1.0}
        part = types.Part(text="said")
        if count == 3:
            part = types.Part(function_call=types.FunctionCall(name="look", args={}))
        yield LlmResponse(
            content=types.Content(role="model", parts=[part]),
            cache_metadata=CacheMetadata(**fields),
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=100 * count),
        )


def look() -> str:
    """Look."""
    return "seen"


def app_of() -> App:
    root = LlmAgent(name="root", model=Caching(), tools=[look])
    return App(name="told", root_agent=root, context_cache_config=ContextCacheConfig(ttl_seconds=77))


async def by_adk() -> list[Any]:
    seen.clear()
    runner = InMemoryRunner(app=app_of())
    session = await runner.session_service.create_session(app_name="told", user_id="ada")
    for _ in range(4):
        content = types.Content(role="user", parts=[types.Part(text="hi")])
        async for _ in runner.run_async(user_id="ada", session_id=session.id, new_message=content):
            pass
    return list(seen)


def test_a_model_is_given_what_adk_gives_it(local: Deploy) -> None:
    expected = asyncio.run(by_adk())
    assert [each[1] and each[1][1] for each in expected] == [None, None, 1, 2, 3]
    seen.clear()
    with local(app_of()) as rt:
        for _ in range(4):
            run_turn(rt, "hi")
        assert seen == expected
        # Another session has a cache of its own.
        run_turn(rt, "hi", session_id="s2")
        assert seen[-1] == [77, None, None]


def test_agents_whose_models_do_not_cache_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without the extra of its service a name is no model.
    monkeypatch.setattr("runtime.models.registry.is_usable", lambda name: True)
    agents = [LlmAgent(name="google", model="gemini-2.5-flash"), LlmAgent(name="other", model="openai/gpt-4o")]
    root = LlmAgent(name="root", model=Caching(), sub_agents=agents)
    adapted = from_adk(App(name="told", root_agent=root, context_cache_config=ContextCacheConfig()))
    assert adapted.notes == ("agent 'other': 'openai/gpt-4o' is not cached by context_cache_config, which is for Gemini",)

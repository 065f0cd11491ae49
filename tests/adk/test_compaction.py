"""Conversations of an App with events_compaction_config: every request, those for summaries too, is what ADK's Runner sends."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, LongRunningFunctionTool
from google.genai import types

from tests.adk.notes import log, noted, noted_lines
from tests.support.runtimes import Deploy, run_turn, stored

FRAME = re.compile(r"\n?<<<BEGIN_QUOTED_AGENT_CONTENT>>>\n(.*?)\n<<<END_QUOTED_AGENT_CONTENT>>>", re.DOTALL)
SUMMARY = "following is a conversation"


class Noting(BaseLlm):  # type: ignore[misc]
    """Answers by what it was sent, tells of tokens, and notes each request in the log of the tests."""

    model: str = "noting"
    says: str = "said"
    counts: bool = True

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        shown = [plain(content) for content in llm_request.contents]
        texts = [part.get("text", "") for content in shown for part in content.get("parts", ())]
        noted(json.dumps([self.says, shown]))
        newest = llm_request.contents[-1].parts[-1]
        if any(SUMMARY in text for text in texts):
            part = types.Part(text=f"summary of {sum(map(len, texts)) % 97}")
        elif newest.text and (newest.text.startswith("call ") or ": call " in newest.text):
            part = types.Part(function_call=types.FunctionCall(name=newest.text.split()[-1], args={"request": "x" * 40}))
        else:
            part = types.Part(text=f"{self.says} {len(texts)}")
        tokens = sum(map(len, texts)) if self.counts else None
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=tokens) if self.counts else None
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)


def plain(content: types.Content) -> Any:
    """A content without ids, which differ in each run; what it quotes of others without the frame that ADK puts around."""
    given = content.model_dump(mode="json", exclude_none=True)
    for part in given.get("parts", ()):
        if "text" in part:
            text = FRAME.sub(r" \1", re.sub("^For context: below is.*", "For context:", part["text"], flags=re.DOTALL))
            # Arguments and results of others' calls are told in JSON.
            part["text"] = text.replace("'", '"').replace('": ', '":') if text.startswith("[") else text
        for kind in ("function_call", "function_response"):
            part.get(kind, {}).pop("id", None)
    return given


def look_up(request: str) -> dict[str, str]:
    """Look something up."""
    return {"found": request * 3}


def ask(request: str) -> dict[str, str]:
    """Ask somebody."""
    return {"status": "pending"}


class Counting(BaseEventsSummarizer):  # type: ignore[misc]
    """A summarizer of the user's own."""

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        said = [part.text for event in events if event.content for part in event.content.parts if part.text]
        content = types.Content(role="model", parts=[types.Part(text=f"{len(said)} things were said, the last was {said[-1]}")])
        compaction = EventCompaction(
            start_timestamp=events[0].timestamp, end_timestamp=events[-1].timestamp, compacted_content=content
        )
        return Event(author="user", actions=EventActions(compaction=compaction), invocation_id=Event.new_id())


def one(**more: Any) -> LlmAgent:
    return LlmAgent(name="root", model=Noting(**more), tools=[look_up, LongRunningFunctionTool(ask)])


def helped() -> LlmAgent:
    helper = LlmAgent(name="helper", description="Helps.", model=Noting(says="helped"))
    return LlmAgent(name="root", model=Noting(), tools=[AgentTool(helper), look_up])


def pair() -> SequentialAgent:
    return SequentialAgent(
        name="root", sub_agents=[LlmAgent(name=name, model=Noting(says=name), tools=[look_up]) for name in ("first", "second")]
    )


def turns(interval: int, overlap: int, **more: Any) -> EventsCompactionConfig:
    return EventsCompactionConfig(compaction_interval=interval, overlap_size=overlap, **more)


def tokens(threshold: int, kept: int, **more: Any) -> EventsCompactionConfig:
    return EventsCompactionConfig(token_threshold=threshold, event_retention_size=kept, **more)


LONG = "a rather long message that says something at length, so that there is something to shorten, "
PLAIN = [f"{LONG}{number}" for number in range(9)]
TOOLS = ["hello " * 30, "call look_up", LONG, "call look_up", f"{LONG}again", LONG, "call look_up", "bye"]

CASES: dict[str, tuple[Any, EventsCompactionConfig, Sequence[str]]] = {
    "each turn": (one, turns(1, 0), PLAIN),
    "two turns": (one, turns(2, 0), PLAIN),
    "two turns overlapping": (one, turns(2, 1), PLAIN),
    "three turns overlapping by two": (one, turns(3, 2), PLAIN),
    "turns with calls": (one, turns(2, 1), TOOLS),
    "turns with an agent as tool": (helped, turns(2, 0), ["call helper", LONG, "call helper", "call look_up", LONG, "bye"]),
    "turns of a sequence": (pair, turns(2, 1, summarizer=LlmEventSummarizer(llm=Noting(says="summariser"))), TOOLS[:5]),
    "tokens": (one, tokens(400, 2), PLAIN),
    "tokens, nothing kept": (one, tokens(400, 0), PLAIN),
    "tokens with calls": (one, tokens(300, 3), TOOLS),
    "tokens of a sequence": (pair, tokens(500, 2, summarizer=Counting()), TOOLS[:6]),
    "both": (
        one,
        EventsCompactionConfig(compaction_interval=2, overlap_size=1, token_threshold=700, event_retention_size=3),
        PLAIN,
    ),
    "a summarizer of their own": (one, turns(2, 1, summarizer=Counting()), PLAIN),
    "a prompt of their own": (
        one,
        turns(
            2, 0, summarizer=LlmEventSummarizer(llm=Noting(says="other"), prompt_template=f"{SUMMARY}: {{conversation_history}}")
        ),
        TOOLS,
    ),
    "calls that wait": (one, turns(2, 0), [LONG, "call ask", LONG, LONG, f"{LONG}3", f"{LONG}4"]),
}


def requests() -> list[Any]:
    """The requests since this was called last."""
    lines = [json.loads(line) for line in noted_lines()] if log().exists() else []
    log().unlink(missing_ok=True)
    return lines


async def by_adk(app: App, messages: Sequence[str]) -> None:
    runner = InMemoryRunner(app=app)
    session = await runner.session_service.create_session(app_name=app.name, user_id="ada")
    for message in messages:
        content = types.Content(role="user", parts=[types.Part(text=message)])
        async for _ in runner.run_async(user_id="ada", session_id=session.id, new_message=content):
            pass


def app_of(name: str) -> App:
    make, config, _ = CASES[name]
    return App(name="told", root_agent=make(), events_compaction_config=config.model_copy())


# What ADK does in its own AgentTool.
@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", CASES)
def test_requests_are_those_that_adk_sends(name: str, local: Deploy) -> None:
    *_, messages = CASES[name]
    requests()
    asyncio.run(by_adk(app_of(name), messages))
    adks = requests()
    with local(app_of(name), app_name="told") as rt:
        for message in messages:
            run_turn(rt, message)
        log = stored(rt)
    ours = requests()
    # ADK summarises when a turn has ended, here it is done when the next one begins.
    assert ours == adks[: len(ours)]
    assert all(SUMMARY in json.dumps(request) for _, request in adks[len(ours) :])
    assert any(event.actions.compaction is not None for event in log)

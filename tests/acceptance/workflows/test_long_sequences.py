"""Sequences of many agents: what each adds costs the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

import pytest

from actors import Content, Event, LlmAgent, LlmRequest, LlmResponse, LoopAgent, RunConfig, SequentialAgent
from actors.agent import views
from actors.messages.event import decode_event
from runtime import Runtime


class Telling:
    """Says how many contents it was shown, and notes what the first and the last say."""

    def __init__(self) -> None:
        self.shown: list[tuple[str | None, str | None]] = []

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        texts = [content.parts[-1].text for content in request.contents]
        self.shown.append((texts[0], texts[-1]))
        yield LlmResponse(content=Content.of_text(f"{len(texts)}", role="model"))


def sequence(agents: int, model: Telling, include: Literal["default", "none"] = "default") -> SequentialAgent:
    """Agents that do nothing but speak."""
    children = [LlmAgent(name=f"a{number}", model=model, include_contents=include) for number in range(agents)]
    return SequentialAgent(name="root", sub_agents=children)


def run(rt: Runtime, user: str, message: str) -> list[Event]:
    return list(rt.run(user_id=user, session_id="s1", message=message, run_config=RunConfig(max_llm_calls=0)))


def replies(events: list[Event]) -> list[str]:
    return [event.text for event in events if event.text]


@pytest.mark.parametrize("include", ["default", "none"])
def test_a_child_of_a_long_sequence_decodes_what_is_new_and_not_the_whole_log(
    monkeypatch: pytest.MonkeyPatch, include: Literal["default", "none"]
) -> None:
    decoded: list[int] = []

    def noted(raw: bytes, seq: int) -> Event:
        decoded.append(seq)
        return decode_event(raw, seq)

    monkeypatch.setattr(views, "decode_event", noted)
    counts = []
    for agents in (80, 160):
        decoded.clear()
        with Runtime(sequence(agents, Telling(), include), app_name="long", engine="local", session_store="sqlite://") as rt:
            assert len(replies(run(rt, "ada", "go"))) == agents
        counts.append(len(decoded))
    # Each of the 80 more is preceded by one event that says something, and by few that note where the sequence is.
    assert counts[1] - counts[0] <= 80 * 4


def test_every_child_is_shown_all_that_was_said_also_after_a_rewind_and_in_a_branch() -> None:
    agents = 40
    model = Telling()
    with Runtime(sequence(agents, model), app_name="long", engine="local", session_store="sqlite://") as rt:
        expected = [str(number) for number in range(1, agents + 1)]
        first = run(rt, "ada", "one")
        assert replies(first) == expected
        # In the second turn every agent has spoken before: nobody begins with what another one has compiled.
        second = run(rt, "ada", "two")
        assert replies(second) == [str(number) for number in range(agents + 2, 2 * agents + 2)]
        rt.sessions.rewind("ada", "s1", first[0].invocation_id)
        assert replies(run(rt, "ada", "three")) == expected
        assert model.shown[-1] == ("three", f"[a{agents - 2}] said: {agents - 1}")
        assert replies(run(rt, "bob", "four")) == expected
        assert model.shown[-agents] == ("four", "four")


def test_an_agent_that_speaks_again_sees_what_it_has_said_as_its_own() -> None:
    roles: list[list[str | None]] = []

    class Noting(Telling):
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            roles.append([content.role for content in request.contents])
            async for response in super().generate(request, stream=stream):
                yield response

    model = Noting()
    root = LoopAgent(name="loop", sub_agents=[sequence(40, model)], max_iterations=2)
    with Runtime(root, app_name="long", engine="local", session_store="sqlite://") as rt:
        run(rt, "ada", "go")
    assert [each.count("model") for each in roles] == [0] * 40 + [1] * 40

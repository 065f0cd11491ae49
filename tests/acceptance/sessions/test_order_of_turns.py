"""Turns that a program starts in one session without waiting run in the order in which it has started them."""

from __future__ import annotations

import asyncio

import pytest

from actors import Blob, CallbackContext, Content, Flow, LlmAgent, Part, Plugin, RunConfig, Task
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.support.agents.flow_agents import ME, succeed, worker
from tests.support.runtimes import Deploy

TURNS = 20


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray promises no order for its calls."""
    monkeypatch.setenv("RAYGROVE_TRANSPORT", "direct")


class SlowFirst(Plugin):
    """Sees the first message for longer than the others."""

    async def on_user_message_callback(self, context: CallbackContext, content: Content) -> None:
        for _ in range(200 if content.text.startswith("0") else 0):
            await asyncio.sleep(0)


def agent() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="hello"))


def asked(rt: Runtime) -> list[str]:
    """What the user has said in the session, in the order of the log."""
    session = rt.sessions.get("ada", "s1")
    assert session is not None
    return [event.content.text for event in session.events if event.author == "user" and event.content is not None]


def test_turns_of_a_session_run_in_the_order_in_which_they_were_started(deploy: Deploy) -> None:
    messages = [str(number) for number in range(TURNS)]
    with deploy(agent()) as rt:
        # Neither actor has served a session before, and the session has to be created: all that takes time at first.
        turns = [rt.run(**ME, message=message) for message in messages]
        assert [turn.result().text for turn in turns] == ["hello"] * TURNS
        assert asked(rt) == messages


@pytest.mark.parametrize("invocation_id", [None, "e-0"])
def test_a_message_that_plugins_or_its_data_keep_for_longer_stays_the_first(deploy: Deploy, invocation_id: str | None) -> None:
    data = Part(inline_data=Blob(mime_type="text/plain", data=b"data"))
    with deploy(agent(), plugins=[SlowFirst("slow")]) as rt:
        first = Content(role="user", parts=[Part(text="0"), data])
        saved = RunConfig(save_input_blobs_as_artifacts=True)
        turns = [rt.run(**ME, message=first, run_config=saved, invocation_id=invocation_id)]
        turns += [rt.run(**ME, message=str(number)) for number in range(1, 4)]
        for turn in turns:
            turn.result()
        assert [text[0] for text in asked(rt)] == ["0", "1", "2", "3"]


def test_a_flow_whose_definition_is_sent_first_stays_before_the_turns_after_it(deploy: Deploy) -> None:
    root = worker("root", succeed("one", "done"), "hello", "hello")
    with deploy(root) as rt:
        turns = [rt.run_flow(Flow([Task("Do it", name="one", agents=[root])]), **ME, message="0")]
        turns += [rt.run(**ME, message=str(number)) for number in (1, 2)]
        for turn in turns:
            turn.result()
        assert asked(rt) == ["0", "1", "2"]

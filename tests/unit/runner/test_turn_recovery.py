"""A turn that another Runner has opened, and of which it has run nothing before it was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import CallbackContext, Content, LlmAgent, Plugin
from actors.messages import protocol as p
from actors.messages.codec import encode_event
from actors.messages.event import USER, Event, EventActions
from actors.testing import ScriptedModel
from tests.support.runner_fixture import RunnerFixture
from tests.support.session_fixture import KEY


class Greeting(Plugin):
    """Answers a message itself when the state says so, and notes what it has read there."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[object] = []

    def before_run_callback(self, context: CallbackContext) -> Content | None:
        self.read.append(context.state["greet"])
        return Content.of_text("hello", "model") if context.state["greet"] else None


@pytest.mark.parametrize(("greet", "said"), [(True, "hello"), (False, "from the model")])
async def test_it_begins_with_the_hooks_of_the_beginning_which_see_its_state(tmp_path: Path, greet: bool, said: str) -> None:
    plugin, model = Greeting(), ScriptedModel(["from the model"])
    fixture = RunnerFixture(LlmAgent(name="root", model=model), tmp_path, plugins=[plugin])
    asked = Event(
        id="m-1",
        invocation_id="e-1",
        author=USER,
        content=Content.of_text("hi"),
        actions=EventActions(state_delta={"greet": greet}),
    )
    opened = await fixture.session.open_turn(
        p.OpenTurn(
            key=KEY,
            invocation_id="e-1",
            event=encode_event(asked),
            state_delta={"greet": greet},
            auto_create=True,
            subscriber="driver",
            runner="another",
        )
    )
    assert isinstance(opened, p.TurnBegun)
    await fixture.runner.recover_turn(p.RecoverTurn(key=KEY, invocation_id="e-1"))
    events, outcome = await fixture.end("driver")
    assert isinstance(outcome, p.Finished)
    assert plugin.read == [greet]
    assert [event.text for event in events] == [said]
    await fixture.close()

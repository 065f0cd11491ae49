"""What runs the agents of a kind is a row of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from actors import BaseAgent, Content, Event, SequentialAgent
from actors.agent.actor import AgentKind, with_callbacks
from actors.agent.invocation import Invocation
from actors.definitions.spec import AgentSpec
from actors.layers.kinds import KINDS
from actors.messages.protocol.runs import AnyOutcome, Finished
from tests.support.fixtures.runner_fixture import RunnerFixture


class EchoAgent(BaseAgent):
    """Says what the user has said."""

    kind: ClassVar[str] = "echo"


async def run_echo(spec: AgentSpec, run: Invocation) -> AnyOutcome:
    """Say it, and end the run."""
    await run.emit(Event(content=Content.of_text(run.user_content.text, role="model")), is_last=True)
    return Finished()


ECHO = AgentKind(with_callbacks(run_echo), Invocation)


@pytest.mark.parametrize("is_child", [False, True])
async def test_an_agent_of_a_new_kind_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_child: bool) -> None:
    monkeypatch.setitem(cast(dict[str, Any], KINDS), "echo", ECHO)
    echo = EchoAgent(name="echo", before_agent_callback=lambda callback_context: None)
    fixture = RunnerFixture(SequentialAgent(name="root", sub_agents=[echo]) if is_child else echo, tmp_path)
    events, outcome = await fixture.end(await fixture.start("hello"))
    assert [(event.author, event.text) for event in events if event.text] == [("echo", "hello")]
    assert isinstance(outcome, Finished)

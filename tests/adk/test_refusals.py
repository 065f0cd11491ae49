"""What would behave differently without saying so is refused by its name."""

from __future__ import annotations

import pickle
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.apps import App
from google.adk.code_executors import UnsafeLocalCodeExecutor

from actors import AgentTool
from actors.errors import DefinitionError
from runtime.adk import from_adk
from tests.adk import programs
from tests.support.runtimes import Deploy, stored_state


class Fancy(LlmAgent):  # type: ignore[misc]
    """A subclass."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Any, None]:
        async for event in super()._run_async_impl(ctx):
            yield event


class Clerk(BaseAgent):  # type: ignore[misc]
    """Works for calls, as a ManagedAgent does."""

    mode: str = "single_turn"

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Any, None]:
        return
        yield


@pytest.mark.parametrize(
    ("root", "named"),
    [
        (Fancy(name="fancy"), "agent 'fancy': Fancy is a subclass of LlmAgent with _run_async_impl of its own"),
        (SequentialAgent(name="steps", sub_agents=[LlmAgent(name="task", mode="task")]), "mode='task'"),
        (LlmAgent(name="local", code_executor=UnsafeLocalCodeExecutor()), "code_executor=UnsafeLocalCodeExecutor"),
        (LlmAgent(name="boss", sub_agents=[Clerk(name="clerk")]), "it delegates to 'clerk', which is a Clerk"),
        ("no agent", "str is no tree of agents"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_is_named(root: Any, named: str) -> None:
    with pytest.raises(DefinitionError, match=named):
        from_adk(root)


def test_an_app_gives_its_root_agent() -> None:
    adapted = from_adk(App(name="app", root_agent=SequentialAgent(name="root", sub_agents=[programs.Checker(name="check")])))
    assert (adapted.root_agent.name, adapted.root_agent.kind, adapted.notes) == ("root", "sequential", ())


def test_a_callback_that_changes_the_definition_fails_with_the_fields_name(local: Deploy) -> None:
    def change(callback_context: Any) -> None:
        callback_context._invocation_context.agent.instruction = "something else"

    root = programs.agent("changing", "hi", before_agent_callback=change)
    with local(root) as rt, pytest.raises(Exception, match="has set 'instruction' of agent 'changing'"):
        rt.run(user_id="u", session_id="s", message="hi").result()


def test_trees_pickle_without_the_agents_around_them() -> None:
    root = from_adk(programs.root_agent).root_agent
    sizes = {agent.name: len(pickle.dumps(agent.alone())) for agent in root.sub_agents}
    assert max(sizes.values()) < 20_000
    asker = next(agent for agent in root.sub_agents if agent.name == "asker")
    assert any(isinstance(tool, AgentTool) for tool in pickle.loads(pickle.dumps(asker)).tools)


def test_events_are_there_in_callbacks_and_refused_by_name_where_no_code_names_them(local: Deploy) -> None:
    def look(callback_context: Any) -> None:
        callback_context.state["seen"] = len(callback_context.session.events)

    async def look_too(callback_context: Any) -> None:
        look(callback_context)

    for callback in (look, look_too):
        with local(programs.agent("looking", "hi", before_agent_callback=callback)) as rt:
            rt.run(user_id="u", session_id=callback.__name__, message="hi").result()
            assert stored_state(rt, callback.__name__, "u")["seen"] == 1

    async def look_from_afar(callback_context: Any) -> None:
        getattr(callback_context.session, "".join(["ev", "ents"]))

    with local(programs.agent("looking", "hi", before_agent_callback=look_from_afar)) as rt:
        turn = rt.run(user_id="u", session_id="s", message="hi")
        with pytest.raises(DefinitionError, match="async code looks at without naming them of google-adk is not carried over"):
            turn.result()


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (lambda context: context.add_events_to_memory(events=[]), "add_events_to_memory of google-adk is not carried over"),
        (lambda context: context.add_memory(memories=[]), "add_memory of google-adk is not carried over"),
        (lambda context: context.delete_memory("1"), "delete_memory of google-adk is not carried over"),
    ],
)
def test_memory_has_whole_sessions_and_refuses_the_rest_by_name(local: Deploy, asked: Any, named: str) -> None:
    async def ask(callback_context: Any) -> None:
        await asked(callback_context)

    with local(programs.agent("asking", "hi", after_agent_callback=ask)) as rt, pytest.raises(DefinitionError, match=named):
        rt.run(user_id="u", session_id="s", message="hi").result()

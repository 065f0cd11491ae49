"""What the runs of LLM agents begin with: a model, and tools in place of toolsets.

A toolset may need a credential of the user before anything else can be done: the agent asks for it (semantics.md 5.6).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from actors.agent.invocation import Invocation
from actors.behaviours.lifecycle import known_failure
from actors.behaviours.llm.run import run_llm
from actors.definitions.tools.toolset import CredentialRequest
from actors.definitions.tree.spec import AgentSpec
from actors.errors import NotCarriedOverError
from actors.interfaces.context import Context
from actors.interfaces.model import Model
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import Event
from actors.messages.protocol.outcomes import AnyOutcome, Paused
from actors.rules.checks.credentials import REQUEST_CREDENTIAL, TOOLSET, asks_credential, open_requests
from actors.rules.routing.branches import tool_root

Run = TypeVar("Run", bound=Invocation)
LlmBehaviour = Callable[[AgentSpec, Model, Run], Coroutine[Any, Any, AnyOutcome]]
"""What a run does with the agent, which has no toolsets any more, and its model."""


async def run_llm_agent(spec: AgentSpec, run: Invocation) -> AnyOutcome:
    """Run an LLM agent."""
    # What came before a failure, such as asking toolsets, would fail once more.
    return known_failure(run) or await with_tools(spec, run, _run_llm)


async def with_tools(spec: AgentSpec, run: Run, behave: LlmBehaviour[Run], *, can_wait: bool = True) -> AnyOutcome:
    """Run an LLM agent with the tools that its toolsets have; or ask the user for what these want to know.

    Args:
        can_wait: the run may wait for the user.
    """
    model = run.parts.model
    if spec.has_toolsets:
        resolved = await run.parts.environment.toolsets.resolved(spec, run, run.parts)
        if not isinstance(resolved, AgentSpec):
            return await _ask_for_credentials(resolved, run, can_wait=can_wait)
        spec = resolved
    # They are no part of what the agent has done: it begins when its tools are known.
    _forget_requests(run)
    return await behave(spec, model, run)


def _run_llm(spec: AgentSpec, model: Model, run: Invocation) -> Coroutine[Any, Any, AnyOutcome]:
    return run_llm(spec, model, run, run.interceptors)


async def _ask_for_credentials(asked: Sequence[CredentialRequest], context: Context, *, can_wait: bool) -> Paused:
    """Store a call for each request that has none yet, and pause for the answers.

    Args:
        can_wait: the run can pause for the user: it is no round of a flow.

    Raises:
        NotCarriedOverError: nothing can wait for a user where the agent works.
    """
    if not can_wait or tool_root(context.branch) is not None:
        raise NotCarriedOverError(
            f"toolset {asked[0].toolset!r} of agent {context.agent_name!r} asks the user for a credential, but it works "
            "as a tool or on a task of a flow, where nothing can wait for that: give the toolset to an agent of the conversation"
        )
    known = open_requests(await context.log.read(), context.invocation_id, context.agent_name)
    calls = {
        request.toolset: FunctionCall(
            id=f"credential-{uuid.uuid4().hex}", name=REQUEST_CREDENTIAL, args={TOOLSET: request.toolset, **request.question}
        )
        for request in asked
        if request.toolset not in known
    }
    if calls:
        parts = [Part(function_call=call) for call in calls.values()]
        ids = [call.id or "" for call in calls.values()]
        await context.emit(Event(content=Content(role="model", parts=parts), long_running_tool_ids=ids))
    return Paused(
        call_ids=tuple(calls[each.toolset].id or "" if each.toolset in calls else known[each.toolset] for each in asked)
    )


def _forget_requests(context: Context) -> None:
    """Leave the calls for toolsets out of what a run has done: one that has done nothing else has yet to begin."""
    if not context.done and not context.resume_at:
        return
    left = [event for event in context.done if not asks_credential(event)]
    is_answered = any(response.name == REQUEST_CREDENTIAL for response in context.user_content.function_responses())
    if not left and (context.done or is_answered):
        context.resume_at = ()
    context.done = left

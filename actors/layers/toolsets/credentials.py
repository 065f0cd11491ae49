"""What toolsets ask the user before an agent runs: calls of the agent, which no model sees (semantics.md 5.6)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

from actors.definitions.tools.toolset import CredentialRequest
from actors.errors import NotCarriedOverError
from actors.interfaces.context import Context
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import USER, Event
from actors.messages.protocol.outcomes import Paused
from actors.rules.checks.credentials import REQUEST_CREDENTIAL, TOOLSET, asks_credential
from actors.rules.routing.branches import tool_root


async def ask_for_credentials(asked: Sequence[CredentialRequest], context: Context, *, can_wait: bool) -> Paused:
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


def forget_requests(context: Context) -> None:
    """Leave the calls for toolsets out of what a run has done: one that has done nothing else has yet to begin."""
    if not context.done and not context.resume_at:
        return
    left = [event for event in context.done if not asks_credential(event)]
    is_answered = any(response.name == REQUEST_CREDENTIAL for response in context.user_content.function_responses())
    if not left and (context.done or is_answered):
        context.resume_at = ()
    context.done = left


def open_requests(events: Iterable[Event], invocation_id: str, agent: str) -> Mapping[str, str]:
    """The calls of an agent in a turn that the user has not answered: by toolset the id of the newest one."""
    found: dict[str, str] = {}
    for event in events:
        if event.invocation_id != invocation_id:
            continue
        if event.author == USER:
            answered = {response.id for response in event.function_responses()}
            found = {toolset: call_id for toolset, call_id in found.items() if call_id not in answered}
        elif event.author == agent and asks_credential(event):
            found.update((str((call.args or {}).get(TOOLSET)), call.id or "") for call in event.function_calls())
    return found

"""5.4 Contents: what the model of an agent is shown of the log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from actors import Content, Event, FunctionCall, FunctionResponse, Part

NO_ANSWER = {"status": "there is no answer yet"}


def is_seen(branch: str | None, own: str | None) -> bool:
    """An event is seen when its branch or the agent's is empty, when they are equal, or when its branch is an ancestor.

    The branch of an agent that is asked as a tool is a world of its own, in both directions.
    """
    if _world(branch) != _world(own):
        return False
    return not branch or not own or f"{own}.".startswith(f"{branch}.")


def _world(branch: str | None) -> str:
    """The branch up to the last agent on it that is asked as a tool."""
    parts = (branch or "").split(".")
    last = max((place for place, part in enumerate(parts) if part.startswith("@")), default=-1)
    return ".".join(parts[: last + 1])


def shown(log: Sequence[Event], agent: str, branch: str | None, *, brief: bool = False) -> list[Content]:
    """The contents of the agent's next request. `brief`: it has `include_contents="none"`.

    Every content with calls is followed directly by one content with a response to each; of several responses the latest counts.
    A call that was never answered is left out, unless it waits for the user.
    """
    seen = [event for event in log if event.content is not None and is_seen(event.branch, branch)]
    seen = _newest_part(seen, agent) if brief else seen
    callers = {call.id: event.author for event in seen for call in event.function_calls()}
    undecided = {call_id for event in seen for call_id in event.actions.requested_tool_confirmations}
    results = {
        response.id: response
        for event in seen
        for response in event.function_responses()
        # A user's decision on a call that needs consent is not what came of the call.
        if callers.get(response.id) == agent and not (event.author == "user" and response.id in undecided)
    }
    contents: list[Content] = []
    for event in _late_answer_last(seen, agent, results):
        said = _as_seen(event, agent, callers, undecided)
        kept = [part for part in said if not _is_dropped(part.function_call, event, results)]
        if not kept:
            continue
        contents.append(Content(role="model" if event.author == agent else "user", parts=kept))
        calls = [part.function_call for part in kept if part.function_call is not None]
        if calls:
            contents.append(Content(role="user", parts=[Part(function_response=_response(call, results)) for call in calls]))
    return contents


def _newest_part(seen: list[Event], agent: str) -> list[Event]:
    """From the newest event of the user or of another agent on. A transfer does not begin it, nor do mere responses of the user.

    A late answer extends it back to the message that began the turn of its call."""
    first = next((place for place in range(len(seen) - 1, -1, -1) if _opens(seen[place], agent)), 0)
    while True:
        called = {call.id for event in seen[first:] for call in event.function_calls()}
        answered = {response.id for event in seen[first:] for response in event.function_responses()} - called
        asking = [event for event in seen[:first] if event.author == agent and _calls(event, answered)]
        if not asking:
            return seen[first:]
        turn = asking[-1].invocation_id
        first = next(place for place, event in enumerate(seen) if event.invocation_id == turn and event.author == "user")


def _calls(event: Event, ids: set[str | None]) -> bool:
    return any(call.id in ids for call in event.function_calls())


def _opens(event: Event, agent: str) -> bool:
    if event.author == "user":
        return any(part.function_response is None for part in event.content.parts) if event.content is not None else False
    names = [*(call.name for call in event.function_calls()), *(each.name for each in event.function_responses())]
    return event.author != agent and "transfer_to_agent" not in names


def _is_dropped(call: FunctionCall | None, event: Event, results: dict[str | None, FunctionResponse]) -> bool:
    return call is not None and call.id not in results and call.id not in event.long_running_tool_ids


def _response(call: FunctionCall, results: dict[str | None, FunctionResponse]) -> FunctionResponse:
    return results.get(call.id) or FunctionResponse(id=call.id, name=call.name, response=NO_ANSWER)


def _as_seen(event: Event, agent: str, callers: dict[str | None, str], undecided: set[str]) -> list[Part]:
    """Own events stay as they are. Other agents' become `For context:` and quotes. A user's response to another agent's call is
    quoted in place, unless it is a decision."""
    parts = event.content.parts if event.content is not None else ()
    if event.author == agent:
        return [part for part in parts if part.function_response is None]
    if event.author != "user":
        return [Part(text="For context:"), *(Part(text=_quoted(event.author, part)) for part in parts)]
    found = []
    for part in parts:
        response = part.function_response
        if response is None:
            found.append(part)
        elif callers.get(response.id, agent) != agent and response.id not in undecided:
            found.append(Part(text=_quoted("user", part)))
    return found


def _quoted(author: str, part: Part) -> str:
    if (call := part.function_call) is not None:
        return f"[{author}] called tool `{call.name}` with parameters: {_json(call.args)}"
    if (response := part.function_response) is not None:
        return f"[{author}] `{response.name}` tool returned result: {_json(response.response)}"
    return f"[{author}] said: {part.text}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _late_answer_last(seen: Sequence[Event], agent: str, results: dict[str | None, FunctionResponse]) -> Sequence[Event]:
    """A late answer as the newest event: its call moves directly before it. What the agent itself said after the call in the turn
    that asked is left out."""
    newest = seen[-1:]
    answered = {each.id for event in newest for each in event.function_responses() if each is results.get(each.id)}
    asking = [place for place, event in enumerate(seen) if any(call.id in answered for call in event.function_calls())]
    asked_in = {seen[place].invocation_id: place for place in reversed(asking)}
    kept = [
        event
        for place, event in enumerate(seen[:-1])
        if place not in asking and not (event.author == agent and place > asked_in.get(event.invocation_id, place))
    ]
    return [*kept, *(seen[place] for place in asking), *newest]

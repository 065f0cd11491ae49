"""What a log says: its events without ids, times and notes of progress, in streams that have one right order each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from actors import Content, Event
from tests.model.story import takes_back
from tests.simulation.scenarios import Node

MORE_RESULTS = "raygrove:more_results"
"""Marks an event with results that was stored while other calls of the same answer ran."""

NEWEST = "_newest"
"""Ends keys that all calls of an answer set, at times that are not compared."""

PIECES = "pieces"
"""The events of which one was made here that has all results of an answer."""

replaced = msgspec.structs.replace


class Tree:
    """The agents of a tree, by their names."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.nodes = {node.name: node for node in root.all()}
        self.parents = {child.name: node for node in root.all() for child in node.children}
        self._parallels = {node.name for node in root.all() if node.kind == "par"}
        self._workers = {name for node in root.all() if node.kind == "flow" for name in workers_of(node)}
        self._tools = {each.name for node in root.all() for expert in node.experts for each in expert.all()}

    def is_tool(self, agent: str) -> bool:
        """True for an agent that is asked as a tool of others, and for what is below it."""
        return agent in self._tools

    def targets(self, agent: str) -> Sequence[str]:
        """3 Targets: its children, its parent and the others below that, each only if that is allowed and an LLM agent has it."""
        node, parent = self.nodes[agent], self.parents.get(agent)
        found = [child.name for child in node.children]
        if parent is not None and parent.kind == "llm":
            found += [parent.name] if "stays" not in node.manners else []
            found += [child.name for child in parent.children if child is not node] if "alone" not in node.manners else []
        return found

    def lineage(self, agent: str) -> Collection[str]:
        """The agent, and all above it."""
        parent = self.parents.get(agent)
        return [agent, *self.lineage(parent.name)] if parent is not None else [agent]

    def is_worker(self, agent: str) -> bool:
        """True for an agent that works on a task of a flow."""
        return agent in self._workers

    def stream_of(self, event: Event) -> Hashable:
        """A branch has one right order; so have an agent in a flow, and the decisions about a child of a parallel."""
        if event.author in self._workers:
            return event.branch, event.author
        if (decision := decision_of(event)) and event.author in self._parallels:
            return event.branch, decision["child"]
        return event.branch

    def streams(self, events: Iterable[Event]) -> Mapping[Hashable, Sequence[Event]]:
        """What the events say, stream by stream. Section 5.6: the results of one answer are one event here.

        Without the results of an answer of which others never came.
        """
        found: dict[Hashable, list[Event]] = defaultdict(list)
        for event in filter(is_said, events):
            stream = found[self.stream_of(event)]
            if stream and has_more(stream[-1]):
                first = stream.pop()
                event = _together(first, event) if _goes_on(first, event) else event
            stream.append(event)
        return {stream: there[:-1] if has_more(there[-1]) else there for stream, there in found.items()}


def workers_of(flow: Node) -> list[str]:
    """The agents that work on a flow's tasks, in the order of the tasks."""
    return [f"{flow.name}_{number}" for number in range(len(flow.tasks))]


def is_said(event: Event) -> bool:
    """False for a note of how far something is, and of what was taken back."""
    actions = event.actions
    does = actions.state_delta or actions.escalate or actions.transfer_to_agent
    is_said = event.content is not None or event.error_code is not None or does or decision_of(event)
    return bool(is_said) and not takes_back(event)


def has_more(event: Event) -> bool:
    """True if other results of the same answer are in another event."""
    return MORE_RESULTS in (event.custom_metadata or {})


def _goes_on(first: Event, then: Event) -> bool:
    """True if `then` has more results of the answer of which `first` has some."""
    return first.author == then.author and any(True for _ in then.function_responses())


def _together(first: Event, then: Event) -> Event:
    parts = [part for event in (first, then) if event.content is not None for part in event.content.parts]
    actions = replaced(then.actions, state_delta={**first.actions.state_delta, **then.actions.state_delta})
    metadata = {**(then.custom_metadata or {}), PIECES: [*pieces_of(first), then]}
    return replaced(then, content=Content(role="user", parts=parts), actions=actions, custom_metadata=metadata)


def decision_of(event: Event) -> Mapping[str, Any]:
    """What a supervisor has decided; nothing for every other event."""
    decided: Mapping[str, Any] = (event.custom_metadata or {}).get("supervision", {})
    return decided if event.content is None else {}


def pieces_of(event: Event) -> Sequence[Event]:
    """The events as they are in the log of which one was made that has all results of an answer."""
    pieces: Sequence[Event] = (event.custom_metadata or {}).get(PIECES, [event])
    return pieces


def are_same(expected: Event, found: Event) -> bool:
    """True if two events say and do the same. Results that came one after the other may have any order."""
    in_any_order = not (found.custom_metadata or {}).keys().isdisjoint((MORE_RESULTS, PIECES))
    return rendered(expected, in_any_order) == rendered(found, in_any_order) and expected.usage in (None, found.usage)


def rendered(event: Event, in_any_order: bool = False) -> Sequence[object]:
    """Everything that an event says and does."""
    names = {call.id: call.name for call in event.function_calls()}
    responses = [(each.id, each.name, _known(each.response)) for each in event.function_responses()]
    actions, decision = event.actions, decision_of(event)
    return [
        event.author,
        event.text,
        [(call.name, call.args) for call in event.function_calls()],
        [("waits", names.get(call_id)) for call_id in event.long_running_tool_ids],
        sorted(responses, key=str) if in_any_order else responses,
        {key: value for key, value in actions.state_delta.items() if not key.endswith(NEWEST)},
        [actions.transfer_to_agent, bool(actions.escalate), bool(actions.skip_summarization), event.error_code],
        [decision[field] for field in ("decision", "child", "attempt", "of") if field in decision],
        (event.custom_metadata or {}).get("heard"),
    ]


def _known(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """A response, without the words of an error."""
    return {"error": "..."} if set(response) == {"error"} and response["error"] != "cancelled" else dict(response)


def told(event: Event) -> str:
    """An event in words."""
    return " ".join(str(each) for each in rendered(event) if each)

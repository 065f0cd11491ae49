"""The log as an agent saw it when its model was asked, of which the answer is in the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import pydantic

from actors.agent.nodes.invocation import asked_of
from actors.behaviours.graph.input_check import as_class
from actors.definitions.tree.spec import AgentSpec
from actors.messages.content import Content
from actors.messages.event import USER, Event
from actors.messages.graph import NodeTask, Seen, Unstored
from actors.messages.json_types import JsonValue
from actors.messages.topology import CHAT
from actors.rules.graph import sight
from actors.rules.graph.answers import read_json
from actors.rules.prompt.history import History
from actors.rules.prompt.task_history import TaskHistory

EARLIER_RELEASE = "it was stored by a release that did not keep what a node or a round is shown"
UNKNOWN_STATE = "functions had written more of the state that was not stored than the log keeps"
UNKNOWN_QUESTION = "what the node was asked was long, and the log does not have it: a function has made it"


class Sight(NamedTuple):
    """What an agent saw.

    Attributes:
        history: of the log.
        state_seq: it knew the state as of this place.
        own: its events after that, whose changes of state it knew as well.
        changed: names of the state of which it is not known whether it had seen the last change.
        unstored: what of the state functions had written and not stored; None: that is not known.
    """

    history: History
    state_seq: int
    own: Sequence[Event] = ()
    changed: frozenset[str] = frozenset()
    unstored: Mapping[str, Unstored] | None = MappingProxyType({})


class ConversationView:
    """The conversation as an agent sees it on a branch, up to where it was read."""

    def __init__(self, spec: AgentSpec, branch: str | None) -> None:
        self._history = History(spec.name, branch)
        self._agent = spec.name
        self._branch = branch
        self._taken = 0
        self._beside: set[str] = set()

    def of(self, event: Event, seen: Sequence[Event]) -> Sight:
        """Return what the agent saw before an answer.

        Args:
            seen: all events of the log before it; more each time.
        """
        for each in seen[self._taken :]:
            self._history.add(each)
            if each.author == self._agent and each.branch == self._branch:
                self._beside.clear()
            elif each.branch is not None and each.branch != self._branch:
                self._beside.update(each.actions.state_delta)
        self._taken = len(seen)
        return Sight(self._history, event.seq - 1, changed=frozenset(self._beside))


def round_sight(spec: AgentSpec, event: Event, seen: Sequence[Event]) -> Sight | str:
    """Return what an agent saw in a round of a flow in the conversation; or why that is not known."""
    assert event.flow is not None
    if not event.flow.seen_seq:
        return EARLIER_RELEASE
    history = TaskHistory(spec.name, event.branch)
    for each in seen:
        if each.seq <= event.flow.seen_seq:
            history.add(each)
    return Sight(history, max(event.flow.seen_seq, event.flow.state_seq))


def node_sight(spec: AgentSpec, event: Event, seen: Sequence[Event]) -> Sight | str:
    """Return what an agent saw that is a node of a graph, or part of one's run; or why that is not known."""
    assert event.node_info is not None
    path, last = event.node_info.path, event.node_info.seen
    of_run = [each for each in seen if _is_of(each, spec, event) and sight.path_of(each) == path]
    begun = next((each for each in (event, *reversed(of_run)) if _begins(each)), None)
    if begun is None or last is None:
        return EARLIER_RELEASE
    assert begun.node_info is not None
    first = begun.node_info.seen
    assert first is not None
    history = History(spec.name, event.branch) if event.flow is None else TaskHistory(spec.name, event.branch)
    is_chat = spec.mode == CHAT
    if first.sees_conversation:
        for each in seen:
            if sight.is_said_before(each, spec.name, path, event.invocation_id, is_chat=is_chat):
                history.add(msgspec.structs.replace(each, branch=None))
    if first.question or first.digest:
        question = _question(spec, event, seen, first)
        if question is None:
            return UNKNOWN_QUESTION
        history.add(Event(author=USER, invocation_id=event.invocation_id, branch=event.branch, content=question))
    own = [each for each in of_run if each.seq > max(first.since, first.recalled_seq)]
    for each in (*_recalled(event, seen, path, first), *own):
        if (shown := sight.shown(each, path)) is not None:
            history.add(shown)
    newest = [each for each in own if each.seq > last.state_seq]
    return Sight(history, last.state_seq, newest, unstored=first.unstored)


def _is_of(event: Event, spec: AgentSpec, answer: Event) -> bool:
    return event.author == spec.name and event.invocation_id == answer.invocation_id


def _begins(event: Event) -> bool:
    return event.node_info is not None and event.node_info.seen is not None and event.node_info.seen.begins


def _recalled(answer: Event, seen: Sequence[Event], path: str, first: Seen) -> Iterator[Event]:
    """Yield the events that the run had read when it began or was resumed."""
    for event in seen:
        if event.invocation_id != answer.invocation_id or not first.since < event.seq <= first.recalled_seq:
            continue
        answers = event.author == USER and any(event.function_responses())
        if answers or sight.is_of_run(event, path, is_part=first.is_part):
            yield event


def _question(spec: AgentSpec, answer: Event, seen: Sequence[Event], first: Seen) -> Content | None:
    """Return the question to the agent; None where the log does not have it any more."""
    if not first.digest:
        return Content.of_text(first.question)
    schema = getattr(spec.definition, "input_schema", None)
    for event in reversed(seen):
        for content, value in _given(event):
            values = [value]
            if schema is not None:
                with suppress(pydantic.ValidationError):
                    values.append(as_class(schema, value).model_dump(mode="json"))
            for each in (content, *(asked_of(NodeTask(path="", data=value), Content()) for value in values)):
                if each is not None and sight.digest(each) == first.digest:
                    return each
    return None


def _given(event: Event) -> Iterator[tuple[Content | None, JsonValue]]:
    """All that an event may have given to a node: as a message, or as data."""
    if event.author == USER and event.content is not None:
        yield event.content, event.text
        yield None, read_json(event.text)
    handed_on = event.node_info.handed_on if event.node_info is not None else None
    for value in (event.output, handed_on, event.text or None):
        yield None, value
        if isinstance(value, list):
            yield from ((None, item) for item in value)
    for call in event.function_calls():
        yield None, call.args
        yield None, (call.args or {}).get("request")

"""Traces as the page shows them, made of a session's log: they are there after a restart, too, and for turns of other programs.

An event has one time, that of its end. So a model's answer began with the event before it, and a tool with its call, or with the
user's answer that it waited for. Turns are traces. Below a turn are the runs of agents, one after another in each branch and
inside of the workflows that they belong to, and below these what their models and tools did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from types import MappingProxyType

import msgspec

from actors.messages.event import USER, Event
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmRequest
from actors.messages.session import Session
from runtime.driver.services.outline import AgentInfo

# Names of attributes that the page reads. Some are demanded of some spans: one span without them, and the page shows none.
_OPERATION = "gen_ai.operation.name"
_CONVERSATION = "gen_ai.conversation.id"
_INVOCATION = "gcp.vertex.agent.invocation_id"
_EVENT = "gcp.vertex.agent.event_id"
_EVENTS = "gcp.vertex.agent.associated_event_ids"


@dataclass
class _AgentRun:
    """Events of an agent without a pause, a transfer or another agent of its branch between them.

    Attributes:
        stretch: how often the turn had waited for the user before.
        number: of the run, in the turn.
        start_s, end_s: when it began and ended.
        events: each with the time at which it began.
    """

    agent: str
    stretch: int
    number: int
    start_s: float
    end_s: float
    events: list[tuple[Event, float]] = field(default_factory=list)


def spans_of(
    session: Session, agents: Mapping[str, AgentInfo], requests: Mapping[str, LlmRequest] = MappingProxyType({})
) -> list[JsonObject]:
    """The spans of a session's turns.

    Args:
        requests: what models were asked, by the ids of the events that have their answers; as far as it is known.
    """
    turns = groupby(session.events, key=lambda event: event.invocation_id)
    return [
        span
        for invocation_id, events in turns
        for span in _Turn(session.id, invocation_id, list(events), agents, requests).spans()
    ]


class _Turn:
    """The trace of one turn.

    Args:
        requests: see `spans_of`.
    """

    def __init__(
        self,
        session_id: str,
        invocation_id: str,
        events: Sequence[Event],
        agents: Mapping[str, AgentInfo],
        requests: Mapping[str, LlmRequest],
    ) -> None:
        self._common: JsonObject = {_CONVERSATION: session_id, _INVOCATION: invocation_id}
        self._events = events
        self._agents = agents
        self._requests = requests
        self._calls = _call_times(events)
        self._trace_id = _hashed(session_id, invocation_id, str(events[0].seq), size=16)

    def spans(self) -> Iterator[JsonObject]:
        """Its spans, each before those below it."""
        start_s, end_s = self._events[0].timestamp, max(event.timestamp for event in self._events)
        root = self._span("invocation", None, start_s, end_s, "turn", {})
        yield root
        yield from self._waits(root)
        runs = self._runs()
        workflows = self._workflows(runs, root)
        yield from workflows.values()
        for run in runs:
            above = self._above(run.agent)
            span = self._span_of(run, workflows[run.stretch, above[-1]] if above else root)
            yield span
            for event, began_s in run.events:
                yield from self._tools(event, span)
                yield from self._answer(event, began_s, span)

    def _workflows(self, runs: Sequence[_AgentRun], root: JsonObject) -> dict[tuple[int, str], JsonObject]:
        """The spans of workflows, which last from the first to the last run inside of them, each after those that it is in."""
        within: dict[tuple[int, str], list[_AgentRun]] = {}
        parents: dict[tuple[int, str], str | None] = {}
        for run in runs:
            parent = None
            for name in self._above(run.agent):
                within.setdefault((run.stretch, name), []).append(run)
                parents[run.stretch, name] = parent
                parent = name
        made: dict[tuple[int, str], JsonObject] = {}
        for (stretch, name), inside in within.items():
            above = parents[stretch, name]
            parent_span = made[stretch, above] if above is not None else root
            start_s, end_s = min(run.start_s for run in inside), max(run.end_s for run in inside)
            made[stretch, name] = self._span(
                f"invoke_agent {name}", parent_span, start_s, end_s, f"workflow {stretch} {name}", _invoked(name)
            )
        return made

    def _above(self, name: str) -> list[str]:
        """The agents that run an agent, which does not speak for itself in their conversation: the outermost first."""
        found: list[str] = []
        agent = self._agents.get(name)
        while agent is not None and agent.parent is not None:
            agent = self._agents.get(agent.parent)
            if agent is None or agent.kind == "llm":
                break
            found.insert(0, agent.name)
        return found

    def _span(
        self, name: str, parent: JsonObject | None, start_s: float, end_s: float, key: str, attributes: JsonObject
    ) -> JsonObject:
        return {
            "name": name,
            "trace_id": self._trace_id,
            "span_id": _hashed(self._trace_id, key, size=8),
            "parent_span_id": parent["span_id"] if parent is not None else None,
            "start_time": int(start_s * 1e9),
            # The clocks of two machines may differ.
            "end_time": int(max(start_s, end_s) * 1e9),
            "attributes": {**self._common, **attributes},
            "logs": [],
        }

    def _span_of(self, run: _AgentRun, parent: JsonObject) -> JsonObject:
        attributes = {**_invoked(run.agent), _EVENTS: [event.id for event, _ in run.events]}
        if failed := next((event.error_code for event, _ in run.events if event.error_code), None):
            attributes["error.type"] = failed
        return self._span(f"invoke_agent {run.agent}", parent, run.start_s, run.end_s, f"agent {run.number}", attributes)

    def _runs(self) -> list[_AgentRun]:
        """The runs of agents, in the order in which they began."""
        runs: list[_AgentRun] = []
        open_runs: dict[str | None, _AgentRun] = {}
        # When the last event of each branch came.
        times: dict[str | None, float] = {}
        stretch = 0
        for event in self._events:
            began_s = max((at for branch, at in times.items() if _related(branch, event.branch)), default=event.timestamp)
            if event.author == USER:
                # The turn was paused: everything that goes on begins with the answer.
                open_runs.clear()
                times = {None: event.timestamp}
                stretch += 1
                continue
            times[event.branch] = event.timestamp
            if event.content is None and not event.error_code and not event.actions.state_delta:
                # How far a workflow is.
                continue
            run = open_runs.get(event.branch)
            if run is None or run.agent != event.author:
                run = _AgentRun(event.author, stretch, len(runs), began_s, event.timestamp)
                open_runs[event.branch] = run
                runs.append(run)
            run.end_s = event.timestamp
            run.events.append((event, began_s))
        return runs

    def _answer(self, event: Event, began_s: float, parent: JsonObject) -> Iterator[JsonObject]:
        """The model's answer in an event of an LLM agent."""
        agent = self._agents.get(event.author)
        if agent is None or agent.kind != "llm" or event.content is None or any(event.function_responses()):
            return
        attributes: JsonObject = {
            _OPERATION: "generate_content",
            _EVENT: event.id,
            "gen_ai.request.model": agent.model,
            "gcp.vertex.agent.llm_response": msgspec.json.encode({"content": event.content}).decode(),
        }
        if (request := self._requests.get(event.id)) is not None:
            attributes["gcp.vertex.agent.llm_request"] = msgspec.json.encode(_shown_request(request, agent.model)).decode()
        if event.finish_reason:
            attributes["gen_ai.response.finish_reasons"] = [event.finish_reason]
        if event.usage is not None:
            tokens = {"input": event.usage.prompt_token_count, "output": event.usage.candidates_token_count}
            attributes |= {f"gen_ai.usage.{name}_tokens": count for name, count in tokens.items() if count is not None}
        name = f"generate_content {agent.model}".rstrip()
        yield self._span(name, parent, began_s, event.timestamp, f"model {event.seq}", attributes)

    def _tools(self, event: Event, parent: JsonObject) -> Iterator[JsonObject]:
        """The tools whose responses an event has."""
        for number, response in enumerate(event.function_responses()):
            attributes = {
                _OPERATION: "execute_tool",
                _EVENT: event.id,
                "gen_ai.tool.name": response.name or "",
                "gen_ai.tool.call.id": response.id or "",
                "gcp.vertex.agent.tool_response": msgspec.json.encode(response.response).decode(),
            }
            start_s = self._calls[event.seq, response.id]
            name = f"execute_tool {response.name}"
            yield self._span(name, parent, start_s, event.timestamp, f"tool {event.seq} {number}", attributes)

    def _waits(self, root: JsonObject) -> Iterator[JsonObject]:
        """The seconds that the turn waited for the user."""
        for event in self._events[1:]:
            if event.author == USER:
                for number, answer in enumerate(event.function_responses()):
                    start_s = self._calls[event.seq, answer.id]
                    attributes = {"gen_ai.tool.call.id": answer.id or ""}
                    name = f"wait for the user: {answer.name}"
                    yield self._span(name, root, start_s, event.timestamp, f"wait {event.seq} {number}", attributes)


def _call_times(events: Sequence[Event]) -> dict[tuple[int, str | None], float]:
    """By event and id of a call that it answers, when the call was made, or last answered, before."""
    last: dict[str | None, float] = {}
    found: dict[tuple[int, str | None], float] = {}
    for event in events:
        for response in event.function_responses():
            found[event.seq, response.id] = last.get(response.id, event.timestamp)
            last[response.id] = event.timestamp
        last.update((call.id, event.timestamp) for call in event.function_calls())
    return found


def _shown_request(request: LlmRequest, model: str) -> JsonObject:
    """A request in the form in which google-adk tells it."""
    config = dict(request.config)
    if request.tools:
        config["tools"] = [*config.get("tools", ()), {"function_declarations": request.tools}]
    if request.output_schema is not None:
        config["response_json_schema"] = request.output_schema
    return {"model": request.model or model, "config": config, "contents": request.contents}


def _invoked(agent: str) -> JsonObject:
    return {_OPERATION: "invoke_agent", "gen_ai.agent.name": agent}


def _related(branch: str | None, other: str | None) -> bool:
    """True for branches of which one is in the other."""
    if branch is None or other is None or branch == other:
        return True
    return branch.startswith(f"{other}.") or other.startswith(f"{branch}.")


def _hashed(*parts: str, size: int) -> str:
    """An id of hexadecimal digits, the same each time: numbers of 64 bits would lose digits in the page."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()

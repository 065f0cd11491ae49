"""The events by which ADK says in a resumable App how far agents are: derived from the log, which has none of them.

Rules of this file:

- A sequence and a loop say which child begins, a parallel that it begins, a graph where its nodes are, each time that changes.
- An LLM agent ends with its final response, or as it transfers. Below a workflow agent it ends with the agent to which it
  has transferred.
- A workflow agent ends after its last child. Where only what comes next shows that it was the last, it ends then.
- An agent that waits for the user has not ended, and neither has what is above it. Agents of other kinds say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from actors.messages.event import USER, Event
from actors.messages.graph import NodeInfo, node_at
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.topology import GRAPH, PARALLEL, AgentNode, Topology
from actors.rules.routing.branches import tool_root

SEQUENTIAL, LOOP = "sequential", "loop"
_WORKFLOWS = (SEQUENTIAL, PARALLEL, LOOP)

RUNNING, COMPLETED, WAITING = 2, 3, 4
"""Where a node is, in the numbers that ADK stores."""


class Checkpoint(NamedTuple):
    """What ADK stores of an agent beside what it says.

    Attributes:
        of: the event beside which it stands.
        author, branch, path: of the agent's run; the path is "" outside of a graph.
        state: how far the agent is; None: it has ended, or is a node that has given this output.
    """

    of: Event
    author: str
    branch: str | None
    path: str = ""
    state: JsonObject | None = None
    output: JsonValue = None


@dataclass
class _Run:
    """The run of an agent in a turn.

    Attributes:
        at: the child that runs, and the iteration of a loop.
        nodes: of a graph, where its nodes are.
        waits: the calls that the user has not answered.
        called_by: the agent that transferred to this one and ends with it.
        has_said: something that is no answer of a model, so it may have been skipped: ADK does not tell the end of that.
    """

    agent: AgentNode
    branch: str | None
    path: str = ""
    at: tuple[str, int] | None = None
    nodes: dict[str, JsonObject] = field(default_factory=dict)
    waits: set[str] = field(default_factory=set)
    called_by: _Run | None = None
    has_said: bool = False
    has_ended: bool = False


class Checkpoints:
    """Tells the checkpoints of the events of a session, or of a turn, one after the other."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        # Turns that wait stay, and go on with their answers.
        self._turns: dict[str, dict[tuple[str, str | None, str], _Run]] = {}
        self._runs: dict[tuple[str, str | None, str], _Run] = {}
        self._last: Event | None = None
        self._has_failed = False

    def pass_over(self, events: Iterable[Event]) -> None:
        """Go on from these, whose checkpoints are not wanted."""
        for event in events:
            self.before(event)
            self.after(event)

    def before(self, event: Event) -> list[Checkpoint]:
        """Those that stand before an event: the turn before it has ended, and agents have begun with it."""
        ended = [] if self._last is None or event.invocation_id == self._last.invocation_id else self.finished()
        self._runs = self._turns.setdefault(event.invocation_id, {})
        return [*ended, *self._began(event)]

    def after(self, event: Event) -> list[Checkpoint]:
        """Those that stand behind it: agents have ended with it, or wait."""
        if event.partial:
            return []
        self._last = event
        if event.error_code is not None and event.model_version is None:
            self._has_failed = True
        if event.author == USER:
            for run in self._runs.values():
                run.waits.difference_update(response.id for response in event.function_responses())
            return []
        if (info := event.node_info) is not None and self._is_answer(event, info):
            # Of what did not run again ADK has the output, and no checkpoint.
            around = self._runs[node_at(above := info.path.rpartition("/")[0]), None, above]
            around.nodes[node_at(info.path)] = {"run": info.path, "status": COMPLETED, "interrupts": []}
            return [Checkpoint(event, event.author, event.branch, info.path, output=info.handed_on)]
        ended = list(self._ended_of(event))
        if info is not None and info.has_ended:
            ended += self._node_is(event, info.path, COMPLETED)
            for path in info.output_for:
                # The graphs in others; the outermost one may have other nodes that run.
                if "/" in path and (graph := self._runs.get((node_at(path), None, path))) is not None:
                    ended += self._end(event, graph)
        return ended

    def finished(self) -> list[Checkpoint]:
        """Those behind the last event: of agents whose end nothing else has shown. None where the turn waits, or has failed."""
        last, has_failed, runs = self._last, self._has_failed, list(self._runs.values())
        self._last, self._has_failed = None, False
        if last is None or (not has_failed and any(run.waits for run in runs)):
            return []
        found = [] if has_failed else list(self._close(last, runs))
        self._turns.pop(last.invocation_id, None)
        return found

    def _run(self, name: str, branch: str | None, path: str = "") -> _Run | None:
        node = self._topology.find(name)
        if node is None:
            return None
        return self._runs.setdefault((name, branch, path), _Run(node, branch, path))

    def _began(self, event: Event) -> Iterator[Checkpoint]:
        if event.partial or event.author == USER or tool_root(event.branch) or self._topology.find(event.author) is None:
            return
        yield from self._parallels(event)
        if (info := event.node_info) is not None and not self._is_answer(event, info):
            yield from self._node_is(event, info.path, RUNNING)
        note = event.actions.agent_state or {}
        child = note.get("child")
        if not child or "decided" in note or self._topology[event.author].kind not in (SEQUENTIAL, LOOP):
            return
        run = self._run(event.author, event.branch)
        assert run is not None
        at = str(child), int(note.get("iteration", 0))
        if run.at == at:
            return
        yield from self._close(event, [each for each in self._runs.values() if each is not run and self._is_in(each, run)])
        for each in [key for key, each in self._runs.items() if each is not run and self._is_in(each, run)]:
            del self._runs[each]
        run.at = at
        self._run(at[0], event.branch)
        state: JsonObject = {"current_sub_agent": at[0]}
        yield Checkpoint(
            event, run.agent.name, run.branch, state=state | ({"times_looped": at[1]} if run.agent.kind == LOOP else {})
        )

    def _parallels(self, event: Event) -> Iterator[Checkpoint]:
        """The parallels around an agent that begin with its event, the outermost first."""
        begun: list[_Run] = []
        branch, child = event.branch, None
        for node in self._topology.lineage(event.author):
            suffix = f"{node.name}.{child}"
            if node.kind == PARALLEL and branch is not None and (branch == suffix or branch.endswith(f".{suffix}")):
                branch = branch[: -len(suffix) - 1] or None
                run = self._run(node.name, branch)
                if run is not None and run.at is None:
                    run.at = ("", 0)
                    begun.append(run)
            child = node.name
        return (Checkpoint(event, run.agent.name, run.branch, state={}) for run in reversed(begun))

    def _is_answer(self, event: Event, info: NodeInfo) -> bool:
        """True where a node has not run again: the answer to its question is its output."""
        above = info.path.rpartition("/")[0]
        graph = self._runs.get((node_at(above), None, above))
        known = graph.nodes.get(node_at(info.path)) if graph is not None else None
        return info.has_ended and info.is_note and known is not None and known["status"] == WAITING

    def _node_is(self, event: Event, path: str, status: int) -> Iterator[Checkpoint]:
        """The graph around the run of a node says where it is, if that is new; graphs around that one begin first."""
        above, _, _ = path.rpartition("/")
        graph = self._run(node_at(above), None, above) if above else None
        if graph is None or graph.agent.kind != GRAPH:
            return
        if status == RUNNING:
            yield from self._node_is(event, above, RUNNING)
        name = node_at(path)
        known = graph.nodes.get(name)
        been = known["status"] if known is not None and known["run"] == path else None
        if been == status or (status == RUNNING and been == COMPLETED):
            return
        interrupts = list(event.long_running_tool_ids) if status == WAITING else []
        graph.nodes[name] = {"run": path, "status": status, "interrupts": interrupts}
        nodes = {each: {"status": node["status"], "interrupts": node["interrupts"]} for each, node in graph.nodes.items()}
        yield Checkpoint(event, graph.agent.name, graph.branch, state={"nodes": nodes})

    def _ended_of(self, event: Event) -> Iterator[Checkpoint]:
        """The ends of the agent that has spoken, and of those around it that end with it."""
        info = event.node_info
        calls = {*event.long_running_tool_ids, *event.actions.requested_inputs, *event.actions.requested_tool_confirmations}
        agent = self._topology.find(event.author)
        if tool_root(event.branch) or agent is None or (agent.kind == GRAPH and info is None):
            return
        path = "" if info is None else info.path.rpartition("/")[0] if agent.kind == GRAPH else info.path
        run = self._run(event.author, None if agent.kind == GRAPH else event.branch, path)
        if run is None:
            return
        run.waits |= calls
        if calls and info is not None:
            yield from self._node_is(event, info.path, WAITING)
        if not run.agent.is_llm or calls:
            return
        target = event.actions.transfer_to_agent
        if target is not None:
            if self._is_in_workflow(run) and (other := self._run(target, event.branch)) is not None:
                other.called_by, other.has_ended = run, False
                return
            self._runs.pop((target, event.branch, ""), None)
            yield from self._end(event, run)
        elif event.is_final_response() and not run.waits:
            if event.model_version is not None or any(event.function_responses()):
                yield from self._end(event, run)
            else:
                run.has_said = run.has_said or event.content is not None

    def _end(self, event: Event, run: _Run) -> Iterator[Checkpoint]:
        """An agent has ended, and with it those that wait for no other."""
        if run.has_ended:
            return
        run.has_ended = True
        if run.agent.kind == GRAPH:
            yield Checkpoint(event, run.agent.name, run.branch)
            yield from self._node_is(event, run.path, COMPLETED)
            return
        yield Checkpoint(event, run.agent.name, run.branch, run.path)
        if run.called_by is not None:
            yield from self._end(event, run.called_by)
            return
        parent = self._topology.find(run.agent.parent or "")
        if parent is None or run.path:
            return
        is_last = parent.kind == SEQUENTIAL and run.agent.name == parent.children[-1]
        if is_last or (parent.kind == LOOP and event.actions.escalate):
            yield from self._end_of(event, parent, run.branch)
        elif parent.kind == PARALLEL:
            branch = (run.branch or "").removesuffix(f"{parent.name}.{run.agent.name}").removesuffix(".") or None
            if (above := self._run(parent.name, branch)) is not None and self._all_ended(above):
                yield from self._end(event, above)

    def _end_of(self, event: Event, parent: AgentNode, branch: str | None) -> Iterator[Checkpoint]:
        above = self._run(parent.name, branch)
        if above is not None:
            yield from self._end(event, above)

    def _all_ended(self, run: _Run) -> bool:
        prefix = f"{run.branch}.{run.agent.name}" if run.branch else run.agent.name
        return all(
            (child := self._runs.get((name, f"{prefix}.{name}", ""))) is not None and child.has_ended
            for name in run.agent.children
        )

    def _close(self, event: Event, runs: list[_Run]) -> Iterator[Checkpoint]:
        """The ends of runs that are over, those below before those above."""
        for run in sorted(runs, key=self._depth, reverse=True):
            kind = run.agent.kind
            is_told = run.agent.is_llm and not run.has_said and not run.path
            if is_told or kind in (SEQUENTIAL, LOOP, GRAPH) or (kind == PARALLEL and self._all_ended(run)):
                yield from self._end(event, run)

    def _depth(self, run: _Run) -> int:
        return sum(1 for _ in self._topology.lineage(run.agent.name)) + run.path.count("/")

    def _is_in(self, run: _Run, above: _Run) -> bool:
        return self._topology.is_below(run.agent.name, above.agent.name)

    def _is_in_workflow(self, run: _Run) -> bool:
        return not run.path and any(
            (parent := self._topology.find(node.parent or "")) is not None and parent.kind in _WORKFLOWS
            for node in self._topology.lineage(run.agent.name)
        )

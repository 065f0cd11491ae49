"""Reports of a turn, made of its events: why its messages and its graphs went where they did, and the boards of its flows."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from actors.layers.flows.rules.board import Board
from actors.layers.graphs.behaviour.node_attempt import NodeAttempt
from actors.layers.graphs.rules.progress import GraphProgress
from actors.layers.graphs.rules.shape import START, TAKEN, EdgeBecause, EdgeReason, Shape, drawn_name
from actors.layers.graphs.rules.sight import UserAnswers
from actors.messages import protocol as p
from actors.messages.event import ADDRESSED, USER, Event, decode_event
from actors.messages.flow import TaskStatus
from actors.messages.graph import Arrow, GraphShape, NodeInfo, Route, node_at
from actors.messages.json_types import JsonValue
from actors.messages.session import SessionKey
from actors.messages.shown import Shown
from actors.messages.topology import GRAPH, Topology
from actors.messages.turn_info import PassedOver, TurnInfo
from actors.refs import SessionRef
from actors.rules.routing.branches import speaker
from actors.rules.routing.selection import may_answer_for, obstacle, selectable


class SelectionReason(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, repr_omit_defaults=True):
    """Why a message of a user went to an agent (semantics.md section 1).

    Attributes:
        seq: position of the message.
        agent: the agent, as the tree is now.
        because: the message answers a call of the agent ("answers"), is for a run of it that waits for the user's words
            ("awaited"), or is addressed to it ("addressed"); the message began a flow ("flow"); the agent spoke last of those
            that may ("spoke"); none of them has spoken, so it is the root ("root").
        passed_over: the agents that spoke more recently, the most recent first.
    """

    seq: int
    agent: str
    because: Literal["answers", "awaited", "addressed", "flow", "spoke", "root"]
    call_id: str = ""
    passed_over: tuple[PassedOver, ...] = ()


async def reasons_of(session: SessionRef, key: SessionKey, turn: TurnInfo, topology: Topology) -> list[SelectionReason]:
    """The reason for each message of a user in a turn: the one that began it, and those that answered what it waited for.

    Raises:
        SessionNotFoundError, StoreError: the log cannot be read.
    """
    found: list[SelectionReason] = []
    callers: dict[str, str] = {}
    async for event in events_of(session, key, turn):
        if event.author == USER and not event.steers:
            found.append(await _reason(session, key, event, callers, topology))
        callers.update((call.id, event.author) for call in event.function_calls() if call.id)
    return found


async def _reason(
    session: SessionRef, key: SessionKey, message: Event, callers: dict[str, str], topology: Topology
) -> SelectionReason:
    if message.flow is not None:
        return SelectionReason(seq=message.seq, agent=topology.root.name, because="flow")
    if message.node_info is not None:
        return SelectionReason(seq=message.seq, agent=node_at(message.node_info.path), because="awaited")
    addressed = str((message.custom_metadata or {}).get(ADDRESSED, ""))
    call_id = next((response.id for response in message.function_responses() if response.id), "")
    if addressed and not call_id:
        return SelectionReason(seq=message.seq, agent=addressed, because="addressed")
    authors = await _authors(session, key, message.seq, topology)
    return explain(topology, authors, message.seq, callers.get(call_id, ""), call_id)


async def _authors(session: SessionRef, key: SessionKey, before_seq: int, topology: Topology) -> list[str]:
    """The authors before a message, the most recent first and each once, up to the first that may keep the conversation."""
    found: dict[str, None] = {}
    while before_seq > 1:
        page = await session.ask(p.ReadLog(key=key, after_seq=0, before_seq=before_seq, limit=PAGE, newest_first=True))
        events = [decode_event(stored.raw, stored.seq) for stored in page.events]
        found.update(dict.fromkeys(selectable(speaker(event.author, event.branch) for event in events)))
        if not events or not page.more or any(is_transferable(topology, name) for name in found):
            break
        before_seq = events[-1].seq
    return _until_decided(found, topology)


def _until_decided(authors: Iterable[str], topology: Topology) -> list[str]:
    found = []
    for author in authors:
        found.append(author)
        if is_transferable(topology, author):
            break
    return found


def explain(topology: Topology, authors: Iterable[str], seq: int, caller: str = "", call_id: str = "") -> SelectionReason:
    """Tell why `select_agent` selects what it does, with the authors that it passes over.

    Args:
        seq: position of the message.
        call_id: the call that it answers; "" for none.
    """
    if may_answer_for(topology, caller):
        return SelectionReason(seq=seq, agent=caller, because="answers", call_id=call_id)
    passed: list[PassedOver] = []
    for author in authors:
        found = obstacle(topology, author)
        if found is None:
            return SelectionReason(seq=seq, agent=author, because="spoke", passed_over=tuple(passed))
        passed.append(found)
    return SelectionReason(seq=seq, agent=topology.root.name, because="root", passed_over=tuple(passed))


def is_transferable(topology: Topology, name: str) -> bool:
    """True when control may stay with the agent: it and all its ancestors are LLM agents that may hand back to their parent.

    An agent that is a tool is never transferable, nor one that works for calls: the user does not talk to it.
    """
    return obstacle(topology, name) is None


class TurnEdges:
    """The edges that the graphs of one turn have come to, in the order in which the nodes before them ended.

    Args:
        topology: the tree, which tells the shapes of its graphs.

    Attributes:
        reasons: why each of them was taken, or not.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._runs: dict[str, _GraphRun] = {}
        self._answers = UserAnswers()
        self.reasons: list[EdgeReason] = []

    def add(self, event: Event) -> None:
        """Take in the next event of the turn."""
        if event.author == USER:
            self._answers.add(event)
        if event.node_info is None:
            return
        for path, graph, shape in self._graphs(event.node_info.path):
            run = self._runs.get(path)
            if run is None:
                run = self._runs[path] = _GraphRun(graph, path, shape, self._answers)
                self.reasons += run.begin()
            self.reasons += run.add(event, event.node_info)

    def _graphs(self, path: str) -> Iterator[tuple[str, str, GraphShape]]:
        """The runs of graphs that a run is in, the outermost first, each with its path and shape."""
        end = path.find("/")
        while end >= 0:
            above = path[:end]
            name = above.rpartition("/")[2].partition("@")[0]
            node = self._topology.find(name)
            if node is not None and node.kind == GRAPH and node.graph is not None:
                yield above, name, node.graph
            end = path.find("/", end + 1)


class _GraphRun:
    """One run of a graph, as far as its events tell."""

    def __init__(self, graph: str, path: str, told: GraphShape, answers: UserAnswers) -> None:
        self._graph = graph
        self._path = path
        self._shape = Shape(told.arrows, told.joins)
        self._patient = frozenset(told.patient)
        self._answers = answers
        self._attempts: dict[str, NodeAttempt] = {}
        self._progress = GraphProgress(self._shape, None, None)

    def begin(self) -> list[EdgeReason]:
        """The edges from START."""
        return self._reasons(START, "", (), 0, {})

    def add(self, event: Event, info: NodeInfo) -> list[EdgeReason]:
        """Take in an event of a run in it. Returns the edges that it has come to: those from a node that ended."""
        name, _, below = info.path.removeprefix(f"{self._path}/").partition("/")
        if name.rpartition("@")[0] not in self._shape.nodes:
            return []
        attempt = self._attempts.setdefault(name, NodeAttempt())
        if below:
            attempt.add_below(event, self._answers)
            return []
        if info.attempt or (event.error_code is not None and not info.has_ended):
            # It failed, and is tried again, or the turn is run on from here.
            self._attempts[name] = NodeAttempt(after_seq=event.seq)
            return []
        attempt.add(event, self._answers)
        if not info.has_ended:
            return []
        del self._attempts[name]
        return self._end(name, attempt, event, info)

    def _end(self, name: str, attempt: NodeAttempt, event: Event, info: NodeInfo) -> list[EdgeReason]:
        node, said = name.rpartition("@")[0], attempt.routes
        if name not in self._progress.next_names():
            # The tree has another shape by now: what follows cannot be told from it.
            return []
        output = attempt.output if info.handed_on is None else info.handed_on
        leads_on = bool(node not in self._patient or output is not None or said)
        before = {arrow.target: self._progress.led_to(arrow.target) for arrow, _ in self._shape.judged(node, said)}
        self._progress.end(name, output, said, event.branch, leads_on=leads_on)
        if not leads_on:
            return [self._reason(arrow, name, said, event.seq, "patient") for arrow, _ in self._shape.judged(node, said)]
        return self._reasons(node, name, said, event.seq, before)

    def _reasons(self, node: str, run: str, said: Sequence[Route], seq: int, before: Mapping[str, int]) -> list[EdgeReason]:
        """Why each edge from a node was taken or not.

        Args:
            before: how many runs of each next node had been led to before.
        """
        starved = self._progress.starved()
        led_to = Counter(before)
        found = []
        for arrow, because in self._shape.judged(node, said):
            target, lacks = "", tuple[str, ...]()
            if because in TAKEN and self._progress.led_to(arrow.target) > led_to[arrow.target]:
                led_to[arrow.target] += 1
                target = f"{arrow.target}@{led_to[arrow.target]}"
            elif because in TAKEN:
                lacks = tuple(starved.get(arrow.target, ()))
            found.append(self._reason(arrow, run, said, seq, because, target, lacks))
        return found

    def _reason(
        self,
        arrow: Arrow,
        run: str,
        said: Sequence[Route],
        seq: int,
        because: EdgeBecause,
        target_run: str = "",
        lacks: Sequence[str] = (),
    ) -> EdgeReason:
        return EdgeReason(
            graph=self._graph,
            path=self._path,
            source=drawn_name(arrow.source),
            target=arrow.target,
            taken=because in TAKEN,
            because=because,
            said=tuple(said),
            source_run=run,
            target_run=target_run,
            lacks=lacks,
            seq=seq,
        )


class BoardTask(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A task of a flow, and how far it is.

    Attributes:
        name, objective: the task, and what it is to achieve.
        status: pending, running, successful, failed or skipped.
        is_ready: agents may work on it: it is not complete, and all that it needs is.
        needs: the tasks that have to be complete before it begins: its dependencies and its parts.
        parent: the task that it is a part of; "" for none.
        agents: the agents that may work on it.
        works: the agents that work on it now.
        result: of a successful task, as plain data.
        reason: why it failed or was skipped; "" otherwise.
        llm_calls: model calls for it since its agent last finished any task; max_llm_calls: those after which it fails.
    """

    name: str
    objective: str = ""
    status: TaskStatus
    is_ready: bool = False
    needs: Sequence[str] = ()
    parent: str = ""
    agents: Sequence[str] = ()
    works: Sequence[str] = ()
    result: JsonValue = None
    reason: str = ""
    llm_calls: int = 0
    max_llm_calls: int | None = None


class FlowBoard(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One run of a flow.

    Attributes:
        run: the run; unique in the log.
        first_seq, last_seq: its first and its newest event.
        goal: the tasks that it is for.
        tasks: all of its tasks, in the order in which they were made.
        counts: how many of them have each status.
        rounds, llm_calls: rounds and model calls so far.
        stopped: the condition that has stopped it before all tasks were done; "" for none.
    """

    run: str
    first_seq: int
    last_seq: int
    goal: Sequence[str] = ()
    tasks: Sequence[BoardTask] = ()
    counts: Mapping[TaskStatus, int] = {}
    rounds: int = 0
    llm_calls: int = 0
    stopped: str = ""


class TurnBoards:
    """The boards of all runs of flows in one turn, in the order in which they began."""

    def __init__(self) -> None:
        self._boards: dict[str, Board] = {}
        self._places: dict[str, tuple[int, int]] = {}

    def add(self, event: Event) -> None:
        """Take in the next event of the turn."""
        if event.flow is not None:
            run = event.flow.run
            self._boards.setdefault(run, Board()).add(event.author, event.flow)
            self._places[run] = self._places.get(run, (event.seq, 0))[0], event.seq

    def boards(self, *, runs: bool) -> list[FlowBoard]:
        """The boards as they are.

        Args:
            runs: the turn runs. No agent works in one that waits or has ended, whatever its last event says.
        """
        # The message that began a flow names its definition, and has no tasks.
        return [self._board(run, board, runs=runs) for run, board in self._boards.items() if board.nodes]

    def _board(self, run: str, board: Board, *, runs: bool) -> FlowBoard:
        first_seq, last_seq = self._places[run]
        ready = set(board.ready())
        return FlowBoard(
            run=run,
            first_seq=first_seq,
            last_seq=last_seq,
            goal=board.goal(),
            tasks=[_task(board, name, is_ready=name in ready, runs=runs) for name in board.nodes],
            counts=Counter(board.status.values()),
            rounds=board.rounds,
            llm_calls=board.llm_calls,
            stopped=board.stopped,
        )


def _task(board: Board, name: str, *, is_ready: bool, runs: bool) -> BoardTask:
    node = board.nodes[name]
    return BoardTask(
        name=name,
        objective=node.objective,
        status=board.status[name],
        is_ready=is_ready,
        needs=tuple(board.needs(name)),
        parent=node.parent or "",
        agents=node.agents,
        works=[agent for agent, tasks in board.turns.items() if runs and name in tasks and not board.is_complete(name)],
        result=board.results.get(name),
        reason=board.reasons.get(name, ""),
        llm_calls=board.calls.get(name, 0),
        max_llm_calls=node.max_llm_calls,
    )


PAGE = 500
"""Events that are read at once."""


async def events_of(session: SessionRef, key: SessionKey, turn: TurnInfo) -> AsyncIterator[Event]:
    """The events of a turn, in their order: there may be those of other turns between them. Raises StoreError."""
    after_seq = turn.first_seq - 1
    while turn.first_seq and after_seq < turn.last_seq:
        request = p.ReadLog(key=key, after_seq=after_seq, before_seq=turn.last_seq + 1, limit=PAGE)
        page = (await session.ask(request)).events
        if not page:
            return
        for stored in page:
            event = decode_event(stored.raw, stored.seq)
            if event.invocation_id == turn.invocation_id:
                yield event
        after_seq = page[-1].seq

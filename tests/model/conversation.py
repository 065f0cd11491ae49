"""What the turns of a session must say: docs/semantics.md, sections 1, 3, 4, 5, 7 and parts of 8, as a sequential program.

It is played along a log. From the log it takes what users have done, in its order, how calls are named, and which runs were lost
too often. All else has to be as it says: who gets each message, what is said on each branch, and how each turn ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from actors import Content, Event
from tests.model.agents import llm, runs_children, says, steps, with_consent, with_decision
from tests.model.runs import KINDS, LOST, MODEL_CALLS, DiffersError, FailedError, Run, Turn, Waits, at_once, run
from tests.model.said import Tree, decision_of, is_said, told
from tests.model.story import is_message, is_seal, takes_back
from tests.model.workflows import flow, graph, loop, parallel, sequence
from tests.simulation.scenarios import Node

KINDS |= {"llm": llm, "says": says, "custom": runs_children, "flow": flow, "graph": graph}
KINDS |= {"seq": sequence, "loop": loop, "par": parallel}


class Stretch(NamedTuple):
    """A part of a turn: a message or an answer of the user, and what is said from there on to the end, or to the next answer.

    Attributes:
        before: the log up to the message, with it.
        there: what is said.
        meanwhile: what other turns have said since, between a failure and a retry.
        voided: the positions of the failures from which the turn was run again.
    """

    message: Event
    before: Sequence[Event]
    there: list[Event]
    meanwhile: list[Event]
    voided: list[int]


class Conversation:
    """The log of a session, played again.

    Args:
        turns: those that the log has, by id, and how they have ended; "": it was taken back. Other messages begin none.
        may_be_cut: true of a turn that may have ended at any moment, since it was cancelled or could not be stored.
        max_calls: how many model calls a turn may make.
        has_faults: model calls may have been repeated.
        retried: turns that were asked to go on without a message.

    Attributes:
        problems: what is not as it must be.
        asked: how often the models of agents were shown what.
        refused: what calls beyond the limit had shown to models, by agent.
        ran: how often the tools of calls have run.
        is_whole: no turn was cut or retried, and no run was lost too often.
    """

    def __init__(
        self,
        root: Node,
        log: Sequence[Event],
        turns: Mapping[str, str],
        may_be_cut: Callable[[str], bool],
        *,
        max_calls: int = 60,
        has_faults: bool,
        retried: Collection[str] = (),
    ) -> None:
        self.problems: list[str] = []
        self.asked: Counter[str] = Counter()
        self.refused: dict[str, set[str]] = defaultdict(set)
        self.ran: Counter[str] = Counter()
        self.is_whole = True
        self._tree, self._log, self._may_be_cut, self._max_calls = Tree(root), log, may_be_cut, max_calls
        self._may_vary = has_faults or any(node.kind in ("par", "graph", "flow") for node in root.all())
        self._played: dict[str, list[Stretch]] = defaultdict(list)
        self._turns: dict[str, Turn] = {}
        self._paused: dict[str, tuple[Run, Waits]] = {}
        self._ends: dict[str, str] = {}
        for stretch in _stretches(log, turns):
            name = stretch.message.invocation_id
            late = () if name in retried else _late(self._tree, stretch.there)
            self.problems += (f"{name}: an agent above has failed, and behind that is: {told(event)}" for event in late)
            self._played[name].append(stretch)
            self._play(stretch)
        for name, turn in self._turns.items():
            self.asked.update(request_of(agent, contents) for agent, contents in turn.asked)
            for agent, contents in turn.refused:
                self.refused[agent].add(request_of(agent, contents))
            self.ran.update(turn.ran)
            self._look_at(name, turns[name])

    def _play(self, stretch: Stretch) -> None:
        """Play a turn from a message of the user to its end, or to its next pause."""
        name = stretch.message.invocation_id
        where = f"{name} after {stretch.message.seq}"
        if name not in self._turns:
            self._turns[name] = Turn(self._tree, stretch.message, self._max_calls, may_vary=self._may_vary)
        turn = self._turns[name]
        turn.voided = sorted({*turn.voided, *stretch.voided})
        turn.begin(stretch.before, stretch.there, stretch.meanwhile)
        agent = selected(self._tree, stretch.before[:-1], stretch.message)
        if agent not in self._tree.nodes:
            self.problems.append(f"{where}: it answers no call of the log")
            return
        runs, answer = self._continued(turn, self._tree.nodes[agent], stretch)
        self._paused.pop(name, None)
        try:
            self._paused[name] = runs, runs.send(answer)  # type: ignore[arg-type]
            self._ends[name] = "paused"
        except StopIteration as end:
            self._ends[name] = "failed" if end.value.error else "finished"
        except (DiffersError, FailedError) as error:
            self.problems.append(f"{where}: {error}")
            return
        failure = turn.retried_failure() if self._ends[name] == "failed" else None
        if failure is None and self._may_be_cut(name):
            failure = next(iter(turn.undecided_failures()), None)
        if failure is not None and failure in stretch.there:
            self._play_again(name, turn, failure)
        else:
            self._compare(turn, where)

    def _continued(self, turn: Turn, agent: Node, stretch: Stretch) -> tuple[Run, Event | None]:
        """4 Pauses: an answer continues the same turn, at the agent that asked. One to a call of a turn that is over begins a run
        of that agent, and continues nothing else. Any other message begins a turn, at the agent that section 1 selects."""
        answered = {response.id for response in stretch.message.function_responses()}
        asking = next((event for event in stretch.before if any(call.id in answered for call in event.function_calls())), None)
        if asking is None or self._tree.is_tool(asking.author):
            return run(turn, agent, None), None
        closed = {response.id for event in stretch.before if is_seal(event) for response in event.function_responses()}
        paused, waits = self._paused.get(turn.invocation_id, (None, Waits(())))
        if paused is not None and not answered.isdisjoint(waits.calls) and answered.isdisjoint(closed):
            return paused, stretch.message
        is_node = agent.name in self._tree.parents and self._tree.parents[agent.name].kind == "graph"
        goes_on = {} if paused is None or closed.issuperset(waits.calls) else {paused: waits}
        if is_node and (self._ends.get(turn.invocation_id) == "finished" or answered <= _answered(stretch.before[:-1])):
            # 8 Questions: a second answer does nothing: what waits goes on waiting, and a turn that is over stays so.
            return at_once(turn, [], goes_on), None
        begins = steps if is_node else KINDS[agent.kind]
        decided = [call for call in asking.function_calls() if call.name == "confirm" and call.id in answered]
        if consent := [call for call in decided if call.id in closed]:
            begins = partial(with_consent, calls=consent, is_new=not is_node)
        elif decided and not is_node:
            begins = partial(with_decision, calls=decided, message=stretch.message)
        late = run(turn, agent, asking.branch if is_node else None, begins)
        # A later value of another call: the turn waits as before.
        return at_once(turn, [late], goes_on) if goes_on else late, None

    def _play_again(self, name: str, turn: Turn, failure: Event) -> None:
        """2 Failures: a failed turn that is retried is open again. All that the log has of it counts as done, but failures."""
        stretches = self._played[name]
        there = stretches[-1].there
        void = [event for event in there if _is_void(self._tree, event, failure, there)]
        stretches[-1].there[:] = [event for event in there if event not in void]
        voided = [*turn.voided, failure.seq]
        gave_up = {*turn.gave_up, *((event.author, event.branch) for event in void if decision_of(event))}
        self._turns[name] = Turn(self._tree, stretches[0].message, self._max_calls, may_vary=True, voided=voided, gave_up=gave_up)
        self.is_whole = False
        for stretch in stretches:
            self._play(stretch)

    def _compare(self, turn: Turn, where: str) -> None:
        """Compare what was said with what the log has, where one of them ends before the other."""
        left = turn.left()
        if left and all(event.error_code in LOST for event in left):
            self._ends[turn.invocation_id] = "failed"
            self._paused.pop(turn.invocation_id, None)
        else:
            self.problems += [f"{where}: it must have ended, and said: {told(event)}" for event in left[:1]]
        missing = turn.take_back()
        self.is_whole &= not missing and not turn.is_cut
        if missing and not self._may_be_cut(turn.invocation_id):
            self.problems.append(f"{where}: it ended, and must say: {told(missing[0])}")
        elif missing:
            self._ends[turn.invocation_id] = "cut"
            self._paused.pop(turn.invocation_id, None)

    def _look_at(self, name: str, status: str) -> None:
        """Compare the end of a turn. 2 Limits of a turn: `max_llm_calls` counts the model calls of all its agents together. An
        answer begins the count anew, and a retry does not."""
        is_cut = status in ("cancelled", "failed") and self._may_be_cut(name)
        if name in self._ends and status not in ("", self._ends[name]) and not is_cut:
            self.problems.append(f"{name} is {status}, and must be {self._ends[name]}")
        for stretch in self._played[name]:
            if (often := sum(event.usage is not None for event in stretch.there)) > self._max_calls:
                self.problems.append(f"{name} has made {often} model calls, and may make {self._max_calls}")


def _late(tree: Tree, there: Sequence[Event]) -> Iterator[Event]:
    """2 Failures: the runs that an agent has asked for are stopped before it fails, and nothing of theirs is stored after that.

    When an agent above it has said something since, it may have begun again. A graph tells failures of its nodes as its own.
    """
    failed: set[tuple[str, str]] = set()
    for event in there:
        (own, *above), branch = tree.lineage(event.author), event.branch or ""
        failed = {each for each in failed if each[0] == own or own not in tree.lineage(each[0])}
        if any(agent in above and branch.startswith(at) for agent, at in failed):
            yield event
        if event.error_code and own in tree.nodes and tree.nodes[own].kind != "graph":
            failed.add((own, branch))


def _answered(log: Sequence[Event]) -> set[str | None]:
    """The calls that the user has answered."""
    return {response.id for event in log if is_message(event) for response in event.function_responses()}


def _is_void(tree: Tree, event: Event, failure: Event, there: Sequence[Event]) -> bool:
    """True for what counts no more when a turn is retried: its failure, its limits, and failures without a decision.

    A failure behind which a graph has begun another attempt counts. One of which the same run has failed again does not.
    """
    if event is failure or decision_of(event).get("decision") == "escalate":
        return True
    if not event.error_code or event.error_code in LOST:
        return False
    later = [other for other in there if other.seq > event.seq and tree.stream_of(other) == tree.stream_of(event)]
    following = next(filter(is_said, later), None)
    if event.error_code == MODEL_CALLS:
        return following is not None and not _is_tried_again(tree, event, following, there)
    return following is not None and (following.author, following.error_code) == (event.author, event.error_code)


def _is_tried_again(tree: Tree, event: Event, following: Event, there: Sequence[Event]) -> bool:
    """True if a graph has noted another attempt of a node between its failure and what the node says next."""
    graphs = {
        node.name for node in (tree.nodes.get(event.author), tree.parents.get(event.author)) if node and node.kind == "graph"
    }
    between = (each for each in there if event.seq < each.seq < following.seq and each.branch == event.branch)
    return any(each.author in graphs and not each.error_code and each.content is None for each in between)


def _stretches(log: Sequence[Event], turns: Mapping[str, str]) -> Sequence[Stretch]:
    """The parts of the turns of a log, in its order.

    2 Rewind: agents see the log as before the turn that was rewound. 2 Run again from a step: the turn goes on behind the event;
    if that is a failure, it does not count. One with which a graph notes another attempt of a node has begun that.
    """
    found: list[Stretch] = []
    newest: dict[str, Stretch] = {}
    before: list[Event] = []
    sealed: set[str | None] = set()
    for event in log:
        stretch = newest.get(event.invocation_id)
        if (rewound := event.actions.rewind_before_invocation_id) is not None:
            del before[next((place for place, each in enumerate(before) if each.invocation_id == rewound), len(before)) :]
            continue
        if takes_back(event) and before and before[-1].error_code and (run_again := newest.get(before[-1].invocation_id)):
            run_again.voided.append(before[-1].seq)
            if before[-1].node_info is None or not before[-1].node_info.attempt:
                run_again.there.pop()
        before.append(event)
        for other in newest.values():
            if other is not stretch:
                other.meanwhile.append(event)
        if is_message(event) and event.invocation_id in turns:
            newest[event.invocation_id] = Stretch(event, list(before), [], [], [])
            found.append(newest[event.invocation_id])
        elif stretch is not None:
            responses = {response.id for response in event.function_responses()}
            if not is_seal(event) or responses <= sealed:
                # What an agent says once more of a call that was cancelled is no seal.
                stretch.there.append(event)
            else:
                sealed |= responses
    return found


def request_of(agent: str, contents: Sequence[Content]) -> str:
    """What the model of an agent was shown, speaker by speaker: in which order parallel branches stand is not decided."""
    speakers: Mapping[str, list[str]] = defaultdict(list)
    for content in contents:
        texts = [part.text or repr(part.function_call or part.function_response) for part in content.parts]
        speaker = texts[-1].partition("]")[0] if texts[0] == "For context:" else content.role or ""
        speakers[speaker].append(" + ".join(texts))
    return f"{agent}: {sorted(speakers.items())}"


def selected(tree: Tree, log: Sequence[Event], message: Event) -> str:
    """The agent that gets a message.

    1.1: function responses go to the agent that made the call that the first one answers, unless it is a tool of others. One to
    no call is refused. 1.2: any other message goes to the newest author that is transferable. 1.4: else the root gets it.
    1.5: a message that is addressed goes to that agent.
    """
    if (addressed := (message.custom_metadata or {}).get("raygrove:agent")) and not any(message.function_responses()):
        return str(addressed)
    for response in message.function_responses():
        callers = (event.author for event in reversed(log) if any(call.id == response.id for call in event.function_calls()))
        if not tree.is_tool(caller := next(callers, "")):
            return caller
        break
    return next((event.author for event in reversed(log) if is_transferable(tree, event.author)), tree.root.name)


def is_transferable(tree: Tree, author: str) -> bool:
    """1.3: it, and every agent above it up to and including the root, is an LLM agent. A tool of others is none."""
    while (node := tree.nodes.get(author)) is not None and node.kind == "llm" and "stays" not in node.manners:
        if node is tree.root:
            return True
        author = tree.parents[author].name if author in tree.parents else ""
    return False

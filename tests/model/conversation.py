"""What the turns of a session must say: docs/semantics.md, sections 1, 3, 4, 5 and 7, as a sequential program.

It is played along a log. From the log it takes what users have done, in its order, how calls are named, and which runs were lost
too often. All else has to be as it says: who gets each message, what is said on each branch, and how each turn ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from actors import Content, Event
from tests.model.agents import llm, runs_children, says, steps
from tests.model.floor import selected
from tests.model.flows import flow
from tests.model.runs import KINDS, MAX_MODEL_CALLS, DiffersError, FailedError, Run, Turn, run
from tests.model.said import Tree, is_seal, told
from tests.model.workflows import loop, parallel, sequence
from tests.simulation.scenarios import Node

KINDS |= {"llm": llm, "says": says, "custom": runs_children, "seq": sequence, "loop": loop, "par": parallel, "flow": flow}


class Conversation:
    """The log of a session, played again.

    Args:
        may_be_cut: true of a turn that may have ended at any moment, since it was cancelled or could not be stored.
        has_faults: model calls may have been repeated.

    Attributes:
        problems: what is not as it must be.
        ends: how each turn ends; "cut" at any moment.
        asked: how often the models of agents were shown what.
        ran: how often the tools of calls have run.
        is_whole: no turn was cut, and no run was lost too often.
    """

    def __init__(self, root: Node, log: Sequence[Event], may_be_cut: Callable[[str], bool], *, has_faults: bool) -> None:
        self.problems: list[str] = []
        self.ends: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self.ran: Counter[str] = Counter()
        self.is_whole = True
        self._tree, self._log, self._may_be_cut = Tree(root), log, may_be_cut
        self._may_vary = has_faults or any(node.kind == "par" for node in root.all())
        self._turns: dict[str, Turn] = {}
        self._runs: dict[str, Run] = {}
        for message, there in _stretches(log):
            self._play(message, there)
        for turn in self._turns.values():
            self.asked.update(request_of(agent, contents) for agent, contents in turn.asked)
            self.ran.update(turn.ran)
            self._count_model_calls(turn)

    def _play(self, message: Event, there: Sequence[Event]) -> None:
        """Play a turn from a message of the user to its end, or to its next pause."""
        name = message.invocation_id
        turn = self._turns.setdefault(name, Turn(self._tree, name, may_vary=self._may_vary))
        before = [event for event in self._log if event.seq <= message.seq]
        turn.begin(before, there)
        agent = selected(self._tree, before[:-1], message)
        if agent not in self._tree.nodes:
            self.problems.append(f"{name} after {message.seq}: it answers no call of the log")
            return
        runs, answer = self._continued(turn, self._tree.nodes[agent], message, before)
        self._runs.pop(name, None)
        try:
            runs.send(answer)  # type: ignore[arg-type]
            self._runs[name] = runs
            self.ends[name] = "paused"
        except StopIteration as end:
            self.ends[name] = "failed" if end.value.error else "finished"
        except (DiffersError, FailedError) as error:
            self.problems.append(f"{name} after {message.seq}: {error}")
            return
        self._compare(turn, f"{name} after {message.seq}")

    def _continued(self, turn: Turn, agent: Node, message: Event, before: Sequence[Event]) -> tuple[Run, Event | None]:
        """4 Pauses: an answer continues the same turn, at the agent that asked. One to a call of a turn that is over reaches that
        agent, and continues nothing else. Any other message begins a turn, at the agent that section 1 selects."""
        answered = {response.id for response in message.function_responses()}
        if not answered:
            return run(turn, agent, None), None
        closed = {response.id for event in before if is_seal(event) for response in event.function_responses()}
        if turn.invocation_id in self._runs and answered.isdisjoint(closed):
            return self._runs[turn.invocation_id], message
        asking = next(event for event in before if any(call.id in answered for call in event.function_calls()))
        return run(turn, agent, asking.branch, steps), None

    def _compare(self, turn: Turn, where: str) -> None:
        """Compare what was said with what the log has, where one of them ends before the other."""
        self.problems += [f"{where}: it must have ended, and said: {told(event)}" for event in turn.left()[:1]]
        missing = turn.take_back()
        self.is_whole &= not missing and not turn.is_cut
        if missing and not self._may_be_cut(turn.invocation_id):
            self.problems.append(f"{where}: it ended, and must say: {told(missing[0])}")
        elif missing:
            self.ends[turn.invocation_id] = "cut"
            self._runs.pop(turn.invocation_id, None)

    def _count_model_calls(self, turn: Turn) -> None:
        """2 Limits of a turn: `max_llm_calls` counts the model calls of all agents of the turn together."""
        answers = [event for event in self._log if event.invocation_id == turn.invocation_id and event.usage is not None]
        if len(answers) > MAX_MODEL_CALLS:
            self.problems.append(f"{turn.invocation_id} has made {len(answers)} model calls")


def _stretches(log: Sequence[Event]) -> Sequence[tuple[Event, Sequence[Event]]]:
    """Each message of the user, and what its turn says from there on to its end, or to the user's next answer."""
    found: list[tuple[Event, list[Event]]] = []
    newest: dict[str, list[Event]] = defaultdict(list)
    for event in log:
        if event.author == "user" and event.branch is None:
            newest[event.invocation_id] = []
            found.append((event, newest[event.invocation_id]))
        elif not is_seal(event):
            newest[event.invocation_id].append(event)
    return found


def request_of(agent: str, contents: Sequence[Content]) -> str:
    """What the model of an agent was shown, speaker by speaker: in which order parallel branches stand is not decided."""
    speakers: Mapping[str, list[str]] = defaultdict(list)
    for content in contents:
        texts = [part.text or repr(part.function_call or part.function_response) for part in content.parts]
        speaker = texts[-1].partition("]")[0] if texts[0] == "For context:" else content.role or ""
        speakers[speaker].append(" + ".join(texts))
    return f"{agent}: {sorted(speakers.items())}"

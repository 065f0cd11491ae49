"""What is simulated: a tree of agents with a script for each, and what users do with it. All of it follows from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

Kind = Literal["llm", "says", "custom", "seq", "loop", "par", "flow", "graph"]

Does = Literal[
    "say",
    "work",
    "trickle",
    "ask",
    "confirm",
    "expert",
    "experts",
    "transfer",
    "hand",
    "exit",
    "escalate",
    "fail",
    "linger",
    "note",
    "murmur",
    "break",
]

Manner = Literal["brief", "stays", "alone", "keeps", "lists", "hooked"]

_DEEDS: Sequence[Does] = ("work", "ask", "confirm", "say", "exit")


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One response of a model.

    Attributes:
        does: "say" ends the run with a text, as "exit" does with exit_loop; "escalate" escalates and goes on, "fail" has the
            model fail; "work" calls the tool that takes time, `often` times at once; of "trickle" the calls end one after the
            other, `takes_s` apart; "linger" calls a tool that takes long; "ask" and "confirm" call tools that wait for the user,
            "expert" an agent that is a tool, "experts" several of them and the tool that takes time at once; "transfer" hands
            over, or tries to where it may not; "hand" asks the user and hands over in one answer; "note" calls a tool that writes
            state of all scopes, "murmur" says something beside a call of "work", "break" calls a tool that raises.
        to: the agent of "expert", "transfer" and "hand", the agents of "experts".
        takes_s: how long a tool takes.
    """

    does: Does = "say"
    to: str = ""
    often: int = 1
    takes_s: float = 0.0


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent.

    Attributes:
        steps: an LLM agent's script; after its last step it says something. `odd`: the same in turns with an odd number, if any.
        told: the keys of the state whose values are in its instruction; what its model is told is in all that it says at last.
        manners: "brief" sees only the newest part of the conversation; "stays" may not hand back to the agent above, and "alone"
            to none beside it; "keeps" has an output that is kept, "lists" one that is data; "hooked" has callbacks around its
            models and its tools.
        fails: so many of its first runs fail.
        is_late: these do not fail, but take longer than anything waits for them.
        counts: it counts its runs, in the state, by a callback before and after each; before them so does one that fails.
        times: a loop's iterations; of a graph 1: its nodes run one after the other, 2: those behind the first side by side.
        supervision: "", "restart" or "skip".
        thinks_s: how long its model takes.
        pieces: it streams its answers in so many pieces, each after a moment; 0: at once.
        tasks: a flow's tasks, each with the tasks that it needs; agent `<flow>_<n>` does task n.
    """

    kind: Kind
    name: str
    children: Sequence[Node] = ()
    steps: Sequence[Step] = ()
    odd: Sequence[Step] = ()
    told: Sequence[str] = ()
    manners: Sequence[Manner] = ()
    experts: Sequence[Node] = ()
    fails: int = 0
    is_late: bool = False
    counts: bool = False
    times: int = 1
    absorbs: bool = False
    supervision: Literal["", "restart", "skip"] = ""
    thinks_s: float = 0.0
    pieces: int = 0
    tasks: Sequence[Sequence[int]] = ()

    def all(self) -> Iterator[Node]:
        """This agent and all below it, and those that are tools."""
        yield self
        for below in (*self.children, *self.experts):
            yield from below.all()


Deed = Literal[
    "again",
    "attach",
    "enqueue",
    "follow",
    "answer",
    "cancel",
    "interrupt",
    "reject",
    "midnight",
    "beside",
    "conflict",
    "repeat",
    "elsewhere",
    "backwards",
    "together",
    "leave",
    "retry",
    "rerun",
    "late",
    "rewind",
    "fork",
    "delete",
    "prune",
    "archive",
    "note",
    "withdraw",
    "unnamed",
    "barge",
    "wrong",
]


class Act(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a user does while a turn runs, `after_s` seconds after it was started, or when it is over, so long after that.

    Attributes:
        deed: send the same invocation id again, attach, send a second message that waits, follow such a turn of another driver's
            while it is in line, answer a call that is being answered, cancel, or send a second message that interrupts or is
            rejected; with budgets, also have a new day begin, or run a turn in another session. "conflict": another request with
            the same invocation id, "repeat" the same one by the same program, "elsewhere" a turn in another session. Calls are
            answered from the last one on ("backwards"), all in one message ("together"), or not at all ("leave"). "withdraw": a
            message is put in line and cancelled there, "unnamed": one comes without an invocation id, "barge": one
            interrupts an answer as soon as its first words are seen, "wrong": one has to be refused; the session is changed.
            When the turn is over: retry it, run it again from one of its events, cancel it, answer one of its calls in whatever
            state that is ("late"); rewind, fork, delete or prune the session, archive it, append an event to it ("note").
        after_s: after the turn was started, or is over; of an answer: after the other answer was sent.
        differs: the answer is no, and the other one is yes; of what is done later: it is about the first turn, not the last.
        in_fork: what changes the session is done to its fork, and is about the turn at `share` of those before.
        waits: both answers wait in line, since another turn runs; of a late one: it is a message, not an answer by name.
        share: which of the turn's events, or calls, or other sessions: its place as a share of them.
    """

    deed: Deed
    after_s: float
    differs: bool = False
    waits: bool = False
    in_fork: bool = False
    share: float = 0.0


HARMLESS: frozenset[Deed] = frozenset({"fork", "archive", "cancel"})
"""What may be done when a turn is over, and changes nothing in its session."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated.

    Attributes:
        turns: the acts during each turn.
        between: what is done when each turn is over, before the next one begins.
        max_calls: how many model calls each turn may make; 0: more than any makes.
        groups: in how many processes agents live; 0: each in its own.
        streams: partial events are wanted.
        timeout_s: of each turn; 0: none.
        budget: the option of each turn that is a budget; "": there is none.
        llm_calls: how many model calls that has.
        at_limit: what happens where it is used up; "model": another model is called.
        agent: the agent that a budget of an agent is for.
        midnight: before the turn with this number, from 1, a new day begins; 0: none does.
        then: after the turns the session is forked, or rewound; "": neither.
        thinks_s: how long users think before they answer.
        is_hasty: users answer as soon as they see a call, by the program that they have.
        writes: messages come with changes of the state. `shares`: of all scopes.
        addressed: the agents to which the messages of the turns are addressed; "": to none.
        opened_at_once: how many turns the Runner opens at the same time; 0: more than any scenario has.
    """

    root: Node
    turns: Sequence[Sequence[Act]] = ((),)
    between: Sequence[Sequence[Act]] = ()
    max_calls: int = 0
    groups: int = 0
    streams: bool = False
    timeout_s: float = 0.0
    budget: str = ""
    llm_calls: int = 0
    at_limit: Literal["stop", "ask", "wrap_up", "model"] = "stop"
    agent: str = ""
    midnight: int = 0
    then: Literal["", "fork", "rewind"] = ""
    thinks_s: float = 0.0
    is_hasty: bool = False
    writes: bool = False
    shares: bool = False
    addressed: Sequence[str] = ()
    opened_at_once: int = 0


def pauses(root: Node) -> bool:
    """True if some agent of the tree waits for the user."""
    return any(step.does in ("ask", "confirm", "hand") for node in root.all() for step in node.steps)


class _Trees:
    """Random trees.

    Args:
        chance: decides.
        left: how many agents the tree may have.
    """

    def __init__(self, chance: random.Random, left: int) -> None:
        self._chance = chance
        self._left = left
        self._named = 0

    def tree(self) -> Node:
        """A tree."""
        chance = self._chance
        kinds: list[Kind] = ["seq", "loop", "par", "llm", "custom", "flow"]
        kind = chance.choices(kinds, [7, 5, 4, 4, 2, 2])[0]
        return self._node(kind, depth=chance.choice([1, 2, 2, 3]), in_loop=False, in_workflow=False)

    def _name(self) -> str:
        self._named += 1
        self._left -= 1
        return f"n{self._named}"

    def _node(self, kind: Kind, depth: int, *, in_loop: bool, in_workflow: bool) -> Node:
        name, chance = self._name(), self._chance
        match kind:
            case "llm":
                return self._llm(name, depth, in_loop=in_loop, in_workflow=in_workflow)
            case "says":
                return Node(kind=kind, name=name, times=chance.choice([1, 1, 2, 3]))
            case "flow":
                tasks = [tuple(n for n in range(each) if chance.random() < 0.6) for each in range(chance.randint(1, 3))]
                return Node(kind=kind, name=name, tasks=tasks)
        within_loop = in_loop or kind == "loop"
        children = [
            self._node(self._kind_of_child(depth), depth - 1, in_loop=within_loop, in_workflow=True)
            for _ in range(chance.choice([1, 2, 2, 3]))
            if self._left > 0
        ]
        if not children:
            children = [Node(kind="says", name=self._name())]
        fails = [place for place, child in enumerate(children) if child.kind == "llm" and not child.children]
        supervision: Literal["", "restart", "skip"] = ""
        if kind != "custom" and fails and chance.random() < 0.25:
            supervision = chance.choice(["restart", "restart", "skip"])
            place = chance.choice(fails)
            children[place] = msgspec.structs.replace(children[place], fails=chance.choice([1, 1, 2]))
        return Node(
            kind=kind,
            name=name,
            children=children,
            times=chance.choice([1, 2, 2, 3]) if kind == "loop" else 1,
            absorbs=kind == "loop" and chance.random() < 0.3,
            supervision=supervision,
        )

    def _kind_of_child(self, depth: int) -> Kind:
        if depth <= 0:
            leaves: list[Kind] = ["llm", "says"]
            return self._chance.choices(leaves, [5, 1])[0]
        kinds: list[Kind] = ["llm", "says", "custom", "seq", "loop", "par", "flow"]
        return self._chance.choices(kinds, [10, 1, 2, 4, 4, 3, 1])[0]

    def _llm(self, name: str, depth: int, *, in_loop: bool, in_workflow: bool) -> Node:
        chance = self._chance
        children = [
            self._node("llm", depth - 1, in_loop=in_loop, in_workflow=in_workflow)
            for _ in range(chance.choice([0, 0, 1, 2]) if depth > 0 else 0)
            if self._left > 0
        ]
        experts = []
        if self._left > 0 and chance.random() < 0.12:
            experts.append(Node(kind="llm", name=self._name(), steps=self._steps(chance.choice([0, 1]), [], [], in_loop=False)))
        steps = self._steps(chance.choice([0, 1, 1, 2, 3]), children, experts, in_loop=in_loop)
        return Node(
            kind="llm",
            name=name,
            children=children,
            steps=steps,
            experts=experts,
            thinks_s=chance.choice([0.0, 0.0, 0.01, 0.5]),
        )

    def _steps(self, number: int, children: list[Node], experts: list[Node], *, in_loop: bool) -> list[Step]:
        chance = self._chance
        steps = []
        for _ in range(number):
            does = chance.choices(_DEEDS, [12, 1, 1, 2, 2 if in_loop else 0])[0]
            often = chance.choice([1, 1, 2]) if does == "work" else 1
            steps.append(Step(does=does, often=often, takes_s=chance.choice([0.0, 0.0, 0.02, 0.3, 2.0])))
        for expert in experts:
            steps.insert(chance.randint(0, len(steps)), Step(does="expert", to=expert.name))
        if children and chance.random() < 0.8:
            steps.append(Step(does="transfer", to=chance.choice(children).name))
        return steps


def scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    chance = random.Random(f"scenario {seed}")
    root = _Trees(chance, chance.choice([3, 4, 6, 8])).tree()
    disturbs = chance.random() < 0.25
    turns = [_acts(chance, disturbs=disturbs) for _ in range(chance.choice([1, 1, 1, 2]))]
    others = random.Random(f"other drivers {seed}")
    turns = [[*acts, *_acts_of_others(others, pauses=pauses(root))] for acts in turns]
    timeout_s = chance.choice([0.3, 1.0, 3.0]) if chance.random() < 0.04 else 0.0
    return Scenario(
        root=root,
        turns=turns,
        groups=chance.choice([0, 0, 0, 1, 2]),
        streams=chance.random() < 0.2,
        timeout_s=timeout_s,
    )


def _acts(chance: random.Random, *, disturbs: bool) -> list[Act]:
    deeds: list[Deed] = [deed for deed, often in (("again", 0.15), ("attach", 0.2), ("enqueue", 0.1)) if chance.random() < often]  # type: ignore[misc]
    if disturbs:
        deeds.append(chance.choice(["cancel", "cancel", "interrupt", "reject"]))
    return [Act(deed=deed, after_s=10 ** chance.uniform(-3, 0.7)) for deed in deeds]


def _acts_of_others(chance: random.Random, *, pauses: bool) -> list[Act]:
    """What other drivers do with turns and calls of this one's."""
    acts = [Act(deed="follow", after_s=10 ** chance.uniform(-3, 0.3))] if chance.random() < 0.15 else []
    if pauses and chance.random() < 0.85:
        after_s, differs, waits = 10 ** chance.uniform(-3, -0.5), chance.random() < 0.5, chance.random() < 0.6
        acts.append(Act(deed="answer", after_s=after_s, differs=differs, waits=waits))
    return acts

"""What events say of the nodes of a graph, and what a graph gives to an agent that is one of them (semantics.md section 8).

The events of a graph with a `NodeInfo`, in the order of the log, are its whole state: what has ended is in them, and all else
begins again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from actors.messages.content import Content
from actors.messages.json_types import JsonMapping, JsonValue
from actors.messages.shown import Shown

Route = bool | int | str
"""What a node says and edges ask for. Type and value count: 1 is not True, and not "1"."""

REQUEST_INPUT = "adk_request_input"
"""The function that the user answers when a node has asked something; google-adk's name."""


class Arrow(NamedTuple):
    """From one node of a graph to another.

    Attributes:
        routes: it is followed when the node has said one of them; none: always.
    """

    source: str
    target: str
    routes: tuple[Route, ...] = ()


class GraphShape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A graph by the names of its nodes.

    Attributes:
        arrows: in the order in which they were written.
        joins: the nodes that wait for all before them.
        patient: the functions that lead on only with an output or a route.
    """

    arrows: tuple[Arrow, ...] = ()
    joins: tuple[str, ...] = ()
    patient: tuple[str, ...] = ()


class Unstored(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A value of the state that functions of a graph have written and not stored, as agents see it that run meanwhile.

    Attributes:
        value: it.
        before: what the log had of the key when it was written: once the log has another, that is newer.
        is_new: the log had none.
    """

    value: JsonValue = None
    before: JsonValue = None
    is_new: bool = False

    def holds(self, state: JsonMapping, key: str) -> bool:
        """True while the log has nothing newer.

        Args:
            state: as the log has it.
        """
        return key not in state if self.is_new else key in state and state[key] == self.before


class NodeInfo(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """The node that an event comes from.

    Attributes:
        path: the runs from the outermost graph to the node: `wf@1/a@2` is the second run of node `a` in `wf`.
        output_for: the paths of the graphs whose output the event's is, too: of those that end with this node.
        message_as_output: the text of the content is the output.
        attempt: the run has failed for the so-manieth time, and is tried again; 0 for every other event.
        has_ended: the run is over; what the graph does next follows from that.
        has_paused: the function waits for the user, because a run below it does.
        is_note: the event says nothing but that: readers may leave it out.
        isolation_scope: of an agent that works on a task with the user: see scope_of. Other agents do not see the event.
        is_alone: no graph is around the node: clients of ADK are shown its own name as the author.
        handed_on: what an agent that has ended gives to the nodes after it, as plain data: its own events have only said it.
    """

    path: str
    output_for: Sequence[str] = ()
    message_as_output: bool = False
    attempt: int = 0
    has_ended: bool = False
    has_paused: bool = False
    is_note: bool = False
    isolation_scope: str = ""
    is_alone: bool = False
    handed_on: JsonValue = None


def root_path(agent: str) -> str:
    """The path of a run that is in no other: of a graph, or of an agent with delegates."""
    return f"{agent}@1"


OF_CALL = "call:"
"""Begins the run id of a call of a tool, which has run nodes itself."""


def is_of_tool(path: str) -> bool:
    """True for the path of a run that a tool has asked for, or that is below one."""
    return f"@{OF_CALL}" in path


def without_tools(path: str) -> str:
    """The path as google-adk has it, without the calls of tools."""
    return "/".join(run for run in path.split("/") if not is_of_tool(run))


def node_at(path: str) -> str:
    """The name of the node whose run has that path."""
    return path.rpartition("/")[2].partition("@")[0]


def is_below(path: str, of: str) -> bool:
    """True for the path of a node's run, and those of all runs in it."""
    return path == of or path.startswith(f"{of}/")


def scope_of(path: str, *, is_delegate: bool) -> str:
    """The isolation scope of the run of an agent that works on a task: its path; of a delegate's, the id of the call.

    Source: google-adk, whose scopes clients read. Paths and invocations tell runs apart.
    """
    return path.rpartition("@")[2] if is_delegate else path


class NextAttempt(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What follows when a run fails: its node is tried again.

    Attributes:
        number, most: the attempt that runs is this one of so many.
        delay_s: seconds until the next one.
        exceptions: names of the classes of errors after which there is a next one; None: after all.
    """

    number: int
    most: int
    delay_s: float
    exceptions: Sequence[str] | None = None

    def follows(self, error_classes: Sequence[str]) -> bool:
        """True when there is a next attempt after an error.

        Args:
            error_classes: names of its class, and of those above that.
        """
        return self.exceptions is None or not set(self.exceptions).isdisjoint(error_classes)

    def failed(self, what: str) -> str:
        """The attempt that has failed, for the log of the process: its number, and how long the next one waits."""
        return f"attempt {self.number} of {self.most} of {what}, with the next in {self.delay_s:.3g} s,"


class NodeTask(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One run of an agent as a node: it is asked this.

    Attributes:
        path: of the node's run, see NodeInfo.
        graph: the name of the graph, the author of the event with which the run fails.
        content: the user's message, for a node behind START; None for any other.
        data: what the node before has given; None for nothing, and so is an empty text.
        output_for: see NodeInfo.
        after_seq: what the run has stored up to this place was of attempts that have failed.
        since: all that the run stores stands after this place, and all that another run of the same path has stored before it.
        part: not the agent that is the node is asked, but one below it, which that runs: the runs on the way, such as
            `loop@1/below@2`; "" for the node's own.
        sees_conversation: it sees what the user has said in the session, too, and what it has answered in earlier turns.
        is_delegated: an agent has asked it, for a call, and no graph.
        is_root: it is the root of the tree, and is asked the message with which the turn began.
        again: the node is tried again when the run fails; None: it is not.
        unstored: what of the state functions of the graph have written and not stored: it sees that, too.
    """

    path: str
    graph: str = ""
    content: Content | None = None
    data: JsonValue = None
    output_for: Sequence[str] = ()
    after_seq: int = 0
    since: int = 0
    part: str = ""
    sees_conversation: bool = False
    is_delegated: bool = False
    is_root: bool = False
    again: NextAttempt | None = None
    unstored: Mapping[str, Unstored] = msgspec.field(default_factory=dict)

    @property
    def is_given_nothing(self) -> bool:
        """True when the node is asked the message of the turn, as the one before has given nothing, or said nothing."""
        return self.content is None and self.data in (None, "")

    def of_part(self, agent: str, place: str) -> NodeTask:
        """The task of an agent that the asked one runs, as a workflow agent does: it is asked the same, as part of the same run.

        Args:
            place: tells the runs apart that are wanted of that agent.
        """
        run = f"{agent}@{place}"
        part = f"{self.part}/{run}" if self.part else run
        return msgspec.structs.replace(self, graph="", output_for=(), part=part, sees_conversation=False)

    def of_graph(self) -> NodeTask:
        """The task of a graph, whose runs have paths of their own also where it is part of another run."""
        return msgspec.structs.replace(self, path=f"{self.path}/{self.part}", part="") if self.part else self

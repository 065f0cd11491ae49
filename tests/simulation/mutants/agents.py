"""Defects of agents, in what they do again after a loss or a pause, and in what they know of the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import msgspec

from actors.agent.event_writer import EventWriter
from actors.agent.invocation import Invocation
from actors.agent.session_reader import SessionReader
from actors.agent.views.session_view import AgentView
from actors.agent.views.unsettled_message import UnsettledMessage
from actors.behaviours.llm.run import LlmRun
from actors.behaviours.llm.tool_calls import ToolCalls
from actors.behaviours.workflow import run as workflow
from actors.definitions.tools.context import Actions
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.messages.protocol.base import StoredEvent
from actors.runner.running.running_turn import RunningTurn


def notes_travel_alone() -> AbstractContextManager[object]:
    """A supervisor's note and its child set out at the same time, and nothing keeps their order."""
    return mock.patch.object(EventWriter, "notes_with", return_value=())


def views_take_events_twice() -> AbstractContextManager[object]:
    """An agent's view of a session takes in what another run has taken in already."""
    take_in: Any = AgentView.take_in

    def forgetful(self: AgentView, fetched: p.Fetched) -> None:
        self.seq = 0
        take_in(self, fetched)

    return mock.patch.object(AgentView, "take_in", forgetful)


@contextmanager
def experts_are_asked_anew() -> Iterator[None]:
    """A repeated call of an agent as a tool does not find the run that it had begun."""

    async def never(self: SessionReader, branch: str, content: Content) -> None:
        return None

    with mock.patch.object(SessionReader, "asked_before", never):
        yield


def sequences_skip_what_was_resumed() -> AbstractContextManager[object]:
    """A sequence or loop that was lost takes the child under way for done."""
    run_child: Any = workflow._Sequence._run_child

    async def skipping(self: Any, child: str, position: Any, *, is_resumed: bool) -> p.AnyOutcome:
        if is_resumed:
            return p.Finished(agent=child)
        outcome: p.AnyOutcome = await run_child(self, child, position, is_resumed=False)
        return outcome

    return mock.patch.object(workflow._Sequence, "_run_child", skipping)


def loops_forget_their_iteration() -> AbstractContextManager[object]:
    """A loop that goes on after a loss or a pause counts its iterations anew."""
    return mock.patch.object(workflow, "int", return_value=0, create=True)


def parallel_children_begin_anew() -> AbstractContextManager[object]:
    """The children of a parallel agent that was lost begin as if they had not begun."""
    run_child: Any = Invocation.run_child

    async def anew(self: Invocation, name: str, *, branch: str | None = None, resume: bool = False, **more: Any) -> p.AnyOutcome:
        outcome: p.AnyOutcome = await run_child(self, name, branch=branch, resume=resume and branch is None, **more)
        return outcome

    return mock.patch.object(Invocation, "run_child", anew)


def results_wait_for_the_slowest_call() -> AbstractContextManager[object]:
    """The results of all calls of a response are stored when the last of them has ended"""

    async def wait(self: ToolCalls, left: object, results: object) -> None:
        """Store nothing yet."""

    return mock.patch.object(ToolCalls, "_keep_ended", wait)


def decisions_of_kept_results_are_forgotten() -> AbstractContextManager[object]:
    """A run that was lost goes on without what calls have decided whose results were stored"""
    return mock.patch("actors.behaviours.llm.run.held_decisions", return_value={})


def kept_results_overwrite_later_writes() -> AbstractContextManager[object]:
    """Of a key of the state the call that ends last has its say, not the one that has written last"""
    return mock.patch.object(Actions, "leave_out_older")


def open_calls_are_not_repeated() -> AbstractContextManager[object]:
    """An agent that was lost while its tools ran calls its model again instead of the tools."""
    finish: Any = LlmRun._finish_last_step

    async def forgetful(self: LlmRun) -> p.AnyOutcome | None:
        last = self._context.done[-1]
        if any(last.function_calls()) and self._context.user_seq < last.seq:
            return None
        outcome: p.AnyOutcome | None = await finish(self)
        return outcome

    return mock.patch.object(LlmRun, "_finish_last_step", forgetful)


def events_along_may_have_gaps() -> AbstractContextManager[object]:
    """An agent takes in the events that travel along also when one between is missing."""

    def lenient(events: Sequence[StoredEvent], seq: int) -> Sequence[StoredEvent] | None:
        return [stored for stored in events if stored.seq > seq]

    return mock.patch("actors.agent.views.session_view.following", lenient)


def events_of_transfers_are_left_out() -> AbstractContextManager[object]:
    """Of the events that travel along with a transfer the first is left out."""
    follow: Any = RunningTurn.follow

    def shortened(self: RunningTurn, transfer: p.Transfer) -> None:
        follow(self, msgspec.structs.replace(transfer, events=transfer.events[1:]))

    return mock.patch.object(RunningTurn, "follow", shortened)


def messages_that_were_not_stored_are_kept() -> AbstractContextManager[object]:
    """An agent that has begun early keeps the message in its view, also when the turn begins in another epoch."""

    return mock.patch.object(UnsettledMessage, "is_of_another", return_value=False)


def events_of_others_are_not_missed() -> AbstractContextManager[object]:
    """An agent takes its own event for the next one, whatever others have written in between."""
    add_own: Any = AgentView.add_own

    def blind(self: AgentView, event: Any, size: int) -> bool:
        self.seq = event.seq - 1
        return bool(add_own(self, event, size))

    return mock.patch.object(AgentView, "add_own", blind)

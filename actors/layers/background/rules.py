"""What is said of a background run: to the agent that has started it, and to programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from actors.messages import protocol as p
from actors.messages.config import Background
from actors.messages.content import Content
from actors.messages.event import NO_ACTIONS, RUN, SENDER, USER, Event, EventActions, decode_event, words_id
from actors.messages.session import RUN_LENGTH, conversation_of, digest
from actors.messages.turn_info import BackgroundRun

MOST_SAID = 20_000
"""Characters of a result that are passed on; the log of the run has all of it."""


def ended(run: BackgroundRun, outcome: p.AnyOutcome, said: str, now_s: float) -> BackgroundRun:
    """The run whose turn has ended, or waits for the user.

    Args:
        said: the last words of its agent.
        now_s: seconds since the epoch.
    """
    match outcome:
        case p.Paused():
            return replace(run, status="waiting", ended_s=0.0, result=_cut(said), error="")
        case p.Failed():
            code = f"{outcome.error_code}: " if outcome.error_code else ""
            return replace(run, status="failed", ended_s=now_s, result="", error=_cut(f"{code}{outcome.error_message}"))
        case p.Cancelled():
            return replace(run, status="cancelled", ended_s=now_s, result="", error="")
        case _:
            return replace(run, status="done", ended_s=now_s, result=_cut(said), error="")


def excess(session: str, options: Background, under_way: Sequence[str]) -> tuple[str, str] | None:
    """Why a session may start no run: what it has, and the option that allows no more. None: it may.

    Args:
        under_way: the sessions in which the runs of its conversation were started that are under way.
    """
    depth = (len(session) - len(conversation_of(session))) // RUN_LENGTH + 1
    if depth > options.most_depth:
        return f"would have runs {depth} deep", f"most_depth={options.most_depth}"
    for count, name in ((under_way.count(session), "most"), (len(under_way), "most_in_all")):
        if count >= getattr(options, name):
            return f"has {count} runs under way", f"{name}={getattr(options, name)}"
    return None


class Words(NamedTuple):
    """What an agent has said in a turn."""

    invocation_id: str
    text: str


def last_words(events: Iterable[bytes]) -> Words | None:
    """The last words of an agent among events, the newest of which comes first; None: there are none."""
    for raw in events:
        event = decode_event(raw, 0)
        if event.author != USER and event.is_final_response() and event.content is not None and event.content.text:
            return Words(event.invocation_id, event.content.text)
    return None


def told_id(run: BackgroundRun, turn: str) -> str:
    """The id of the message that tells of the end of a turn of a run: each end has one of its own."""
    return f"told-{run.id}-{digest(f'{turn} {run.status}')}"


def told_event(run: BackgroundRun, options: Background, invocation_id: str, now_s: float) -> Event:
    """The event that tells of the end of a run, or that it waits."""
    shown = {"id": run.id, "agent": run.agent, "status": run.status}
    if options.on_done == "state":
        value = {**shown, "result": run.result, "error": run.error}
        content, actions = None, EventActions(state_delta={f"run:{run.agent}": value})
    else:
        content, actions = Content.of_text(_told(run)), NO_ACTIONS
    return _event(run, run.status, invocation_id, now_s, content, actions)


def question_event(run: BackgroundRun, question: str, invocation_id: str, now_s: float) -> Event:
    """The event with which a run asks the agent that has started it."""
    asks = Content.of_text(f"Background run {run.id} of {run.agent} asks:\n{question}")
    return _event(run, "asks", invocation_id, now_s, asks)


def _event(
    run: BackgroundRun,
    status: str,
    invocation_id: str,
    now_s: float,
    content: Content | None,
    actions: EventActions = NO_ACTIONS,
) -> Event:
    return Event(
        id=words_id(invocation_id),
        invocation_id=invocation_id,
        author=USER,
        timestamp=now_s,
        content=content,
        actions=actions,
        custom_metadata={SENDER: run.agent, RUN: {"id": run.id, "agent": run.agent, "status": status}},
    )


def _told(run: BackgroundRun) -> str:
    what = f"Background run {run.id} of {run.agent}"
    match run.status:
        case "done":
            return f"{what} is done. It says:\n{run.result}"
        case "failed":
            return f"{what} failed: {run.error}"
        case "cancelled":
            return f"{what} was cancelled."
        case _:
            return f"{what} waits for an answer of the user. It says:\n{run.result}"


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}… ({len(text)} characters, of which these are the first)"

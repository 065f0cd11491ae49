"""The description of a turn as lines of text, for terminals."""

from __future__ import annotations

import time
from collections.abc import Iterator

from actors.layers.limiter.messages import ModelWait
from actors.layers.listing.messages import LiveRun
from actors.messages.content import FunctionCall
from actors.messages.event import Usage
from actors.messages.turn_info import LostProcess, TurnInfo
from runtime.driver.operation import local_time
from runtime.driver.turns.turn_description import AgentShare, TurnDescription
from runtime.frontends.console.apps.questions import question
from runtime.frontends.console.event_lines import budget_line, written_call
from runtime.frontends.console.output import duration

MAX_MESSAGE = 200
"""Characters of the message that are shown; the log has all of it."""


def turn_lines(description: TurnDescription, now_s: float | None = None) -> Iterator[str]:
    """A turn: where it is, what it does and waits for, what has failed, and what each agent has done.

    Args:
        now_s: seconds since the epoch, by which spans are counted; None: now.
    """
    now_s = time.time() if now_s is None else now_s
    turn = description.turn
    yield f"turn {turn.invocation_id} of session {turn.session_id!r} of user {turn.user_id!r}: {turn.state}"
    if description.message:
        text = " ".join(description.message.split())
        yield f"  message:    {text[:MAX_MESSAGE]}{'…' if len(text) > MAX_MESSAGE else ''}"
    yield from _times(turn, now_s)
    if turn.epoch > 1:
        yield f"  epoch:      {turn.epoch}: one more for each pause, retry or loss of the Runner after which it went on"
    yield from (f"  lost:       {_lost(lost)}" for lost in turn.lost)
    if turn.state == "waiting":
        yield f"  waits for:  {_turns(description.turns_before)} of its session"
    yield from (f"  runs:       {_run(run, now_s)}" for run in description.runs)
    for call in description.tool_calls:
        said = written_call(FunctionCall(name=call.name, args=call.args))
        yield f"  tool:       {said} of {call.agent}, for {duration(now_s - call.called_s)} (call {call.call_id})"
    yield from (f"  model:      {_wait(wait)}" for wait in description.model_waits)
    for pending in description.pending:
        yield f"  waits for:  a person, since {local_time(pending.asked_s)}: {pending.call_id} {question(pending)}"
    if turn.error:
        yield f"  error:      {turn.error}"
    yield from (f"    {line}" for line in description.traceback.splitlines())
    if description.usage != Usage():
        yield f"  tokens:     {_tokens(description.usage)}"
    if description.money is not None:
        yield f"  money:      {description.money:.6f} {description.currency}"
    yield from (f"  budget:     {budget_line(budget)}" for budget in description.budgets)
    yield from (f"  agent:      {_share(share)}" for share in description.agents)


def _times(turn: TurnInfo, now_s: float) -> Iterator[str]:
    if turn.begun_s:
        yield f"  began:      {local_time(turn.begun_s)}, {duration(now_s - turn.begun_s)} ago"
    if turn.ended_s:
        verb = "paused" if turn.state == "paused" else "ended"
        yield f"  {verb + ':':<11} {local_time(turn.ended_s)}, after {duration(turn.ended_s - turn.begun_s)}"
    if turn.first_seq:
        yield f"  events:     {turn.first_seq} to {turn.last_seq} of the session's log"


def _lost(lost: LostProcess) -> str:
    what = f"a process of {lost.agent}" if lost.agent else "the turn's Runner, or the deployment"
    return f"{what}, at {local_time(lost.lost_s)}{f': {lost.reason}' if lost.reason else ''}"


def _run(run: LiveRun, now_s: float) -> str:
    words = [f"{run.agent}, for {duration(now_s - run.begun_s)}"]
    if run.asked_by:
        words.append(f"asked by {run.asked_by}")
    if run.branch:
        words.append(f"on branch {run.branch}")
    if not run.has_process:
        words.append("waits for a process")
    return ", ".join(words)


def _wait(wait: ModelWait) -> str:
    said = (
        f"{wait.model} is at its limit: waits for {duration(wait.waiting_s)}, {wait.before} calls before it, {wait.running} run"
    )
    if not wait.failed_attempts:
        return said
    repeats = f", and is repeated in {duration(wait.repeats_in_s)}" if wait.repeats_in_s else ""
    return f"{said}; it has failed {wait.failed_attempts} times{repeats}"


def _share(share: AgentShare) -> str:
    words = [f"{share.agent}: {share.events} events"]
    if share.tool_calls:
        failed = f" ({share.failed_tools} failed)" if share.failed_tools else ""
        words.append(f"{share.tool_calls} calls{failed}")
    if share.usage != Usage():
        words.append(f"tokens: {_tokens(share.usage)}")
    return f"{', '.join(words)}; from {local_time(share.first_s)}, for {duration(share.last_s - share.first_s)}"


def _tokens(usage: Usage) -> str:
    told = (
        ("in", usage.prompt_token_count),
        ("cached", usage.cached_content_token_count),
        ("out", usage.candidates_token_count),
        ("thoughts", usage.thoughts_token_count),
        ("in all", usage.total_token_count),
    )
    return ", ".join(f"{count:,} {name}" for name, count in told if count)


def _turns(count: int) -> str:
    return f"{count} turn" if count == 1 else f"{count} turns"

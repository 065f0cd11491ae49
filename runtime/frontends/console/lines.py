"""Events, turns, model calls, budgets and questions as lines of text, for terminals."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from actors.layers.limiter.messages import ModelWait
from actors.layers.listing.messages import LiveRun, PendingCall
from actors.layers.recording.messages import RecordedCall
from actors.layers.spending.messages import UsedBudget
from actors.layers.workflows.rules import decision_text
from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import RESET, Event, Usage
from actors.messages.flow import FlowMark
from actors.messages.llm import LlmRequest
from actors.messages.turn_info import LostProcess, TurnInfo
from actors.rules.routing.transfer import TRANSFER_TOOL
from runtime.driver.operation import local_time
from runtime.driver.turns.description import AgentShare, TurnDescription
from runtime.frontends.console.output import duration

Kind = Literal[
    "text",
    "thought",
    "call",
    "response",
    "transfer",
    "data",
    "state",
    "error",
    "traceback",
    "rewind",
    "task",
    "turn",
    "supervision",
]


def event_lines(event: Event, /) -> Iterator[tuple[Kind, str]]:
    """Yield what an event says and does, in order: for each a kind and a text.

    A transfer stands in place of the response of its tool. An event without content and actions yields nothing.
    """
    transfer = event.actions.transfer_to_agent
    for part in event.content.parts if event.content is not None else ():
        if not (transfer and part.function_response is not None and part.function_response.name == TRANSFER_TOOL):
            yield from _part(part)
    if transfer:
        yield "transfer", f"to {transfer}"
    for key, value in event.actions.state_delta.items():
        yield "state", f"{key} is gone" if value is None else f"{key} = {_json(value)}"
    if event.flow is not None:
        yield from _flow(event.author, event.flow)
    if event.actions.rewind_before_invocation_id:
        yield "rewind", f"to before turn {event.actions.rewind_before_invocation_id}"
    if event.custom_metadata and isinstance(reset := event.custom_metadata.get(RESET), dict):
        yield "rewind", f"to event {reset.get('eventId')} of turn {reset.get('invocationId')}"
    if (decision := decision_text(event)) is not None:
        yield "supervision", decision
    if event.error_code:
        yield "error", f"{event.error_code}: {event.error_message or ''}"
    for line in (event.error_traceback or "").splitlines():
        yield "traceback", line


def _flow(author: str, mark: FlowMark) -> Iterator[tuple[Kind, str]]:
    for node in mark.created:
        yield "task", f"{node.name}: {node.objective}"
    if mark.ready:
        yield "task", f"ready: {', '.join(mark.ready)}"
    for task, change in mark.changes.items():
        detail = change.reason or (_json(change.result) if change.result is not None else "")
        yield "task", f"{task} is {change.status}: {detail}" if detail else f"{task} is {change.status}"
    for agent, tasks in mark.turns.items():
        yield "turn", f"{agent} works on {', '.join(tasks)}"
    if mark.stopped and not mark.created:
        yield "task", f"{author} stops early: {mark.stopped}"
    if mark.ends_turn:
        yield "turn", f"{author} hands over to {mark.next_agent}" if mark.next_agent else f"{author} ends its turn"


def _part(part: Part) -> Iterator[tuple[Kind, str]]:
    if part.text:
        yield "thought" if part.thought else "text", part.text
    if part.function_call is not None:
        yield "call", written_call(part.function_call)
    if part.function_response is not None:
        yield "response", _response(part.function_response)
    if part.inline_data is not None:
        yield "data", f"{len(part.inline_data.data)} bytes of {part.inline_data.mime_type or 'unknown type'}"
    if part.file_data is not None:
        yield "data", part.file_data.file_uri or "a file"
    if part.executable_code is not None:
        yield "call", part.executable_code.code or ""
    if part.code_execution_result is not None:
        yield "response", part.code_execution_result.output or ""


def written_call(call: FunctionCall) -> str:
    """A call in a line, as one writes it."""
    return f"{call.name}({', '.join(f'{name}={_json(value)}' for name, value in call.args.items())})"


def _response(response: FunctionResponse) -> str:
    result = response.response
    return f"{response.name}: {_json(result['result'] if set(result) == {'result'} else result)}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def budget_line(budget: UsedBudget) -> str:
    """Tell how far one limit of a budget is used, and what happens then."""
    then = f"then the model {budget.model!r}" if budget.model else f"then {budget.at_limit}"
    share = f"{100 * budget.used / budget.limit:.0f} % " if budget.limit else ""
    return f"{share}of {budget.whose}: {budget.field} {_number(budget.used)} of {_number(budget.limit)}, {then}"


def _number(amount: float) -> str:
    return f"{amount:,.6f}".rstrip("0").rstrip(".")


_INSTRUCTION = "system_instruction"

NO_CALL = "no model call of this turn was recorded. RAYGROVE_RECORD_REQUESTS=on records those of turns that begin from then on"


def requests_lines(calls: Sequence[RecordedCall]) -> Iterator[str]:
    """All that was asked in a turn; without any call, why there is none."""
    for number, call in enumerate(calls, 1):
        yield from request_lines(number, call)
    if not calls:
        yield NO_CALL


def call_line(number: int, call: RecordedCall) -> str:
    """A model call in a line: who asked whom when, how long it took, and what came of it."""
    asked = f"model call {number}: {call.agent} asked {call.model or 'a model'} at {local_time(call.begun_s)}"
    words = [asked, f"took {call.duration_s:.2f} s"]
    if len(call.attempts) > 1:
        words.append(f"{len(call.attempts)} attempts")
    if call.usage is not None:
        words.append(f"{call.usage.prompt_token_count or 0} tokens in, {call.usage.candidates_token_count or 0} out")
    if call.error:
        words.append(f"failed: {call.error}")
    return ", ".join(words)


def request_lines(number: int, call: RecordedCall) -> Iterator[str]:
    """A model call with all that was asked: the instruction, the configuration, the tools, and the contents in order."""
    yield call_line(number, call)
    for attempt_number, attempt in enumerate(call.attempts, 1):
        where = f" at {attempt.endpoint}" if attempt.endpoint else ""
        ended = f": {attempt.error}" if attempt.error else ""
        yield f"  attempt {attempt_number}: {attempt.model}{where}{ended}"
    if call.request is None:
        yield f"  its request was not recorded: {call.omitted}"
        return
    yield from _request(call.request)


def _request(request: LlmRequest) -> Iterator[str]:
    if request.system_instruction:
        yield "  instruction:"
        yield from (f"    {line}".rstrip() for line in request.system_instruction.splitlines())
    if config := {name: value for name, value in request.config.items() if name != _INSTRUCTION}:
        yield f"  config: {_json(config)}"
    if request.output_schema is not None:
        yield f"  output schema: {_json(request.output_schema)}"
    for tool in request.tools:
        yield f"  tool {tool.name}: {' '.join(tool.description.split())} {_json(tool.parameters or {})}"
    for number, content in enumerate(request.contents, 1):
        yield from _content(number, content)


def _content(number: int, content: Content) -> Iterator[str]:
    for kind, text in event_lines(Event(content=content)):
        first, *rest = text.splitlines() or [""]
        yield f"  content {number}, {content.role or 'user'}, {kind}: {first}"
        yield from (f"    {line}" for line in rest)


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


MAX_LINE = 160
"""Characters of a line; the log has all of it."""

_MARKS = {"call": "→ ", "response": "← ", "error": "! "}


def activity_lines(event: Event) -> Iterator[str]:
    """One line for each call, response, transfer, change of a task, and error of a complete event."""
    if event.partial:
        return
    for kind, text in event_lines(event):
        if kind in ("text", "thought", "traceback", "data", "state"):
            continue
        if kind == "call" and text.startswith(f"{TRANSFER_TOOL}("):
            continue
        line = " ".join(text.split())
        if kind == "transfer":
            yield f"{event.author} → {event.actions.transfer_to_agent}"
        else:
            yield f"{event.author} {_MARKS.get(kind, '')}{line if len(line) <= MAX_LINE else line[:MAX_LINE] + '…'}"


def question(call: PendingCall) -> str:
    """The call, with its arguments; and what it asks in its middle."""
    arguments = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in call.args.items())
    asked = call.question
    if asked is None:
        return f"{call.name}({arguments})"
    return f"{call.name}({arguments}) asks {asked.get('message') or msgspec.json.encode(asked).decode()!r}"

"""The tool calls of one model response: all run at once, and those that end together have their responses in one event.

Results that are too large for a model are kept whole as artifacts, and it is shown their beginning and end (semantics.md 5.6).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from actors.behaviours.interceptor import CallTool, RunInterceptor
from actors.behaviours.lifecycle import facts_for_user_code, log_failure
from actors.definitions.agents.agent_tools import AskingTool, DelegateTool, FinishTaskTool
from actors.definitions.spec import AgentSpec, OwnTools
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import (
    DECISIONS,
    Actions,
    AnsweredInput,
    CallbackContext,
    Report,
    ToolConfirmation,
    ToolContext,
)
from actors.definitions.tools.state import StepState
from actors.errors import (
    ActorLostError,
    FencedError,
    InvalidIdError,
    NotCarriedOverError,
    NotEncodableError,
    RequestError,
    StoreError,
    TooLargeError,
)
from actors.errors.hints import did_you_mean
from actors.errors.tracebacks import foreign_traceback
from actors.errors.user_code import code_of, error_text, in_thread, is_cancellation
from actors.interfaces.context import Context
from actors.messages.codec import decode, encode
from actors.messages.config import Limits
from actors.messages.content import Blob, Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import MORE_RESULTS, NO_ACTIONS, USER, Event, EventActions, RequestedInput
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import FunctionDeclaration, LlmRequest
from actors.messages.protocol.runs import AnyOutcome, Paused
from actors.rules.checks import questions, state, values
from actors.rules.checks.model_answer import MALFORMED
from actors.rules.checks.values import any_form, beginning_and_end, fast_form, stored_delta
from actors.rules.routing.branches import call_segment

logger = logging.getLogger(__name__)

Decisions = Mapping[str, JsonObject]
"""The calls that are not run after what the user has decided, by id: the responses in place of that."""

UserAnswer = AnsweredInput | ToolConfirmation
"""What the user has said to a call, which is run with it."""

NO_ANSWERS: Mapping[str, UserAnswer] = {}
"""The user has said nothing to any call."""


_SHOWN = 16
"""One in so many bytes of the limit is shown of a larger result."""

_LEAST_SHOWN = 1_000


class ToolResult(msgspec.Struct):
    """What came of one call.

    Attributes:
        actions: what the tool has done besides.
        response: None if there is none yet.
        size: bytes of the response, and of the state that it changes.
        duration_s: how long the tool took; 0 for one that was not run, and for an agent, whose own events say so.
        waits: for what an agent waits that works for the call; None for any other call.
        shown: the response as a text for users, if it is the agent's answer.
    """

    call: FunctionCall
    actions: Actions
    response: JsonObject | None
    size: int = 0
    shown: str = ""
    duration_s: float = 0.0
    waits: Paused | None = None


class LargeResults:
    """Shortens results.

    Args:
        limit: bytes that a result may have; 0: any number.
    """

    def __init__(self, context: Context, limit: int) -> None:
        self._context = context
        self._limit = limit

    def is_large(self, size: int) -> bool:
        """True for the size of a result that is to be shortened."""
        return 0 < self._limit < size

    async def shorten(self, call: FunctionCall, response: JsonObject, actions: Actions) -> tuple[JsonObject, int]:
        """Save a response as an artifact, and return a short one with its name; and the bytes of that.

        Where it cannot be saved, the short response says why.

        Args:
            actions: get the version of the artifact.
        """
        key, told, text = _parts(response)
        data = text.encode()
        kind, ending = ("text/plain", "txt") if isinstance(told, str) else ("application/json", "json")
        name = f"{call.name}_{call.id}.{ending}"
        short: JsonObject = {}
        try:
            version = await self._context.artifacts.save(name, Part(inline_data=Blob(data=data, mime_type=kind)))
        except (StoreError, RequestError, OSError) as error:
            whole = f"it could not be saved as an artifact ({error})"
        else:
            actions.artifact_delta[name] = version
            short["artifact"] = name
            whole = f"the artifact {name!r} has the whole"
        short["shortened"] = (
            f"This {key} of {len(data)} bytes is too large to be shown: {whole}. Here are its beginning and its end."
        )
        short[key] = beginning_and_end(text, max(self._limit // _SHOWN, _LEAST_SHOWN))
        return short, len(encode(short))


class StepResults:
    """Stores the results of the calls of one response: some while others still run, and the rest with the last event.

    What the calls write into the state is stored with their results. What ends the run or hands it over takes effect with the
    last event, when no call runs any more.

    Args:
        store: stores an event; it is also given whether that is the last.
        limits: how large an event may be.
        large: shortens results that are too large to be stored together.
        held: what calls of the response have decided whose results were stored before the run was lost: see `held_decisions`.
    """

    def __init__(
        self, store: Callable[[Event, bool], Awaitable[Event]], limits: Limits, large: LargeResults, held: JsonObject
    ) -> None:
        self._store = store
        self._limits = limits
        self._large = large
        self._held = dict(held)
        # By key, the number of the newest write of the state that is stored.
        self._written: dict[str, int] = {}

    async def keep(self, results: Sequence[ToolResult]) -> None:
        """Store results of calls that have ended, while others run. Raises like `end`."""
        await self._store_all(results, is_last=False)

    async def end(self, results: Sequence[ToolResult]) -> tuple[Sequence[ToolResult], Event | None]:
        """Store the last results.

        Those that are too large to be stored together are shortened; they are errors where what they have set is too large.

        Returns:
            The results as they are stored, and the event; None if it would say nothing.

        Raises:
            TooLargeError: the event is too large without changes of state, too.
        """
        return await self._store_all(results, is_last=True)

    async def _store_all(self, given: Sequence[ToolResult], *, is_last: bool) -> tuple[Sequence[ToolResult], Event | None]:
        results = await self._fitting(given)
        event = self._event(results, is_last=is_last)
        if event is None:
            return results, None
        try:
            event = await self._store(event, is_last)
        except TooLargeError as error:
            # Only the Session actor knows how large a state is with all that others have written into it.
            if not any(result.actions.state_delta for result in results):
                raise
            results = [_without_state(result, error) for result in results]
            if (event := self._event(results, is_last=is_last)) is None:
                raise
            event = await self._store(event, is_last)
        for result in results:
            self._written.update({key: max(write, self._written.get(key, 0)) for key, write in result.actions.writes.items()})
            if not is_last:
                self._held.update(result.actions.take_decisions())
        return results, event

    async def _fitting(self, given: Sequence[ToolResult]) -> list[ToolResult]:
        results = list(given)
        for place in values.results_to_drop([result.size for result in results], self._limits):
            result = results[place]
            if result.response is not None:
                response, size = await self._large.shorten(result.call, result.response, result.actions)
                results[place] = msgspec.structs.replace(result, response=response, size=size)
        return results

    def _event(self, results: Sequence[ToolResult], *, is_last: bool) -> Event | None:
        """The event with the responses, in the order of the calls; None if it would say nothing."""
        parts = [
            Part(function_response=FunctionResponse(id=result.call.id, name=result.call.name, response=result.response))
            for result in results
            if result.response is not None
        ]
        parts += [Part(text=result.shown) for result in results if result.shown]
        actions = Actions()
        for result in results:
            actions.merge(result.actions)
        actions.leave_out_older(self._written)
        metadata: JsonObject | None = None
        if not is_last:
            metadata = {MORE_RESULTS: actions.take_decisions()}
        for name, value in self._held.items() if is_last else ():
            setattr(actions, name, getattr(actions, name) or value)
        if not parts and actions.freeze() == NO_ACTIONS:
            return None
        return Event(
            content=Content(role=USER, parts=parts) if parts else None,
            actions=actions.freeze(),
            # They ran at the same time.
            duration_s=max((result.duration_s for result in results), default=0.0) or None,
            custom_metadata=metadata,
        )


def has_more(event: Event) -> bool:
    """True for an event with results that was stored while other calls of the response ran."""
    return MORE_RESULTS in (event.custom_metadata or {})


def held_decisions(done: Sequence[Event]) -> JsonObject:
    """The decisions of the calls whose results are the newest events of a run, if there are more results to come."""
    held: JsonObject = {}
    for event in reversed(done):
        if not has_more(event):
            break
        decided = (event.custom_metadata or {})[MORE_RESULTS]
        held = {**{name: value for name, value in decided.items() if name in DECISIONS}, **held}
    return held


def _without_state(result: ToolResult, error: TooLargeError) -> ToolResult:
    if not result.actions.state_delta:
        return result
    return ToolResult(result.call, Actions(), {"error": f"what {result.call.name} has set cannot be stored: {error}"})


def pause_of(results: Sequence[ToolResult]) -> Paused | None:
    """For what the user's answer is needed before all calls have a response; None when all have."""
    pending = [result for result in results if result.response is None]
    if not pending:
        return None
    ids = [result.waits.call_ids if result.waits is not None else (result.call.id or "",) for result in pending]
    return Paused(call_ids=tuple(chain.from_iterable(ids)))


def shortened(response: JsonObject, room: int) -> JsonObject:
    """A response without its middle, if it has more characters than there is room for."""
    key, _, text = _parts(response)
    return response if len(text) <= room else {key: beginning_and_end(text, room)}


def _parts(response: JsonObject) -> tuple[str, JsonValue, str]:
    """The key of a response under which its value stands, or is to stand; the value; and it as a text."""
    key = "error" if response.keys() == {"error"} else "result"
    told = response[key] if response.keys() == {key} else response
    return key, told, told if isinstance(told, str) else msgspec.json.encode(told).decode()


class CallAnswers:
    """The user's answers to the calls of one response.

    Attributes:
        given: by id, what the user has said to calls that are run with it.
        decided: by id, the responses of calls that are not run.
    """

    def __init__(self) -> None:
        self.given: dict[str, UserAnswer] = {}
        self.decided: dict[str, JsonObject] = {}

    def add(self, call_id: str, tool: str, answer: JsonObject, asked: RequestedInput | None) -> None:
        """Take in the answer to one call.

        Args:
            asked: what the tool has asked in the middle of the call; None: the call needs consent by its definition.
        """
        if asked is not None and not asked.is_confirmation:
            self.given[call_id] = AnsweredInput(asked.memo, answer)
            return
        # A tool that has asked by itself runs after a no, too.
        is_told = asked is not None and answer.get(questions.CONFIRMED) is False
        refused = None if is_told else questions.refusal(tool, answer)
        if refused is not None:
            self.decided[call_id] = {"error": refused}
            return
        hint = str(asked.question.get("message", "")) if asked is not None else ""
        self.given[call_id] = ToolConfirmation(not is_told, answer.get(questions.PAYLOAD), hint)


_CALL_HOOKS = ("before_tool_callback", "after_tool_callback", "on_tool_error_callback", "on_event_callback")
"""The hooks that see a call, or its event."""


class _CallbackFailure(Exception):
    """Carries what a callback raised out of its task, which a SystemExit would not leave alone."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class ToolCalls:
    """The tools that an agent has in one run, and the calls of its model.

    Args:
        given: the tools.

    Attributes:
        given: the same tools, and what is to be known of them together.
        large: shortens results that are too large.
        own: the same tools, by name.
        by_name: those that the newest response may call: callbacks may have added some to its request.
    """

    def __init__(self, spec: AgentSpec, context: Context, interceptors: RunInterceptor, given: OwnTools) -> None:
        self._spec = spec
        self._context = context
        self._interceptors = interceptors
        self.given = given
        self.own = self.by_name = given.by_name
        self.large = LargeResults(context, spec.limits.max_result_bytes)
        self._needs_consent: dict[str, bool] = {}
        # By call of an agent whose runs are numbered: which of them it is.
        self._numbers: dict[str, int] = {}
        self._called: dict[str, int] = {}

    async def decide(self, calls: Iterable[FunctionCall]) -> None:
        """Ask the tools of these calls whether the user has to agree to them. Raises what a tool raises."""
        for call in calls:
            tool = self.by_name.get(call.name)
            if call.id and tool is not None and tool.require_confirmation and not is_malformed(call):
                await self._ask(tool, call)

    async def _ask(self, tool: Tool, call: FunctionCall) -> bool:
        call_id = call.id or ""
        if call_id not in self._needs_consent:
            context = self._tool_context(call_id, Actions())
            self._needs_consent[call_id] = await tool.needs_confirmation(dict(call.args or {}), context)
        return self._needs_consent[call_id]

    async def change_request(self, request: LlmRequest, context: CallbackContext) -> None:
        """Have those tools change a request that do. Raises what a tool raises."""
        for tool in self.given.changing:
            await tool.process_request(request, context)

    def number(self, calls: Iterable[FunctionCall]) -> None:
        """Number calls of agents whose runs are numbered, each once, as they follow each other in the log."""
        for call in calls:
            tool = self.own.get(call.name)
            if isinstance(tool, DelegateTool) and tool.counts_calls and (call.id or "") not in self._numbers:
                self._numbers[call.id or ""] = self._called[call.name] = self._called.get(call.name, 0) + 1

    def delegated(self, calls: Iterable[FunctionCall]) -> list[FunctionCall]:
        """Those of these calls for which agents work."""
        return [call for call in calls if isinstance(self.own.get(call.name), DelegateTool)]

    def _waits_for_consent(self, tool: Tool, call_id: str | None) -> bool:
        return tool.require_confirmation and self._needs_consent.get(call_id or "", True)

    def may_wait(self, call: FunctionCall) -> bool:
        """True if the response to a call may come in a later turn: of a long-running tool, or of one that needs consent.

        `decide` has to be called before.
        """
        tool = self.by_name.get(call.name)
        return tool is not None and (tool.is_long_running or self._waits_for_consent(tool, call.id))

    def long_running_ids(self, content: Content | None) -> tuple[str, ...]:
        """Return the ids of the calls in a content that may wait."""
        calls = list(content.function_calls()) if content is not None else ()
        return tuple(call.id for call in calls if call.id and self.may_wait(call)) if calls else ()

    def confirmations(self, content: Content | None) -> dict[str, JsonObject]:
        """The calls in a content that need the user's consent, by id, with what the user has decided so far."""
        calls = content.function_calls() if content is not None else ()
        tools = {call.id: self.by_name.get(call.name) for call in calls if call.id}
        return {
            call_id: {"confirmed": False}
            for call_id, tool in tools.items()
            if tool is not None and self._waits_for_consent(tool, call_id)
        }

    def only_decide(self, calls: Sequence[FunctionCall]) -> bool:
        """True if the calls have no effect beyond the actions of their event, and no hook sees them."""
        tools = [self.by_name.get(call.name) for call in calls]
        return all(tool is not None and tool.only_decides for tool in tools) and not any(map(self._spec.hooks, _CALL_HOOKS))

    async def run(
        self,
        calls: Sequence[FunctionCall],
        decided: Decisions,
        results: StepResults,
        answers: Mapping[str, UserAnswer] = NO_ANSWERS,
    ) -> list[ToolResult]:
        """Run all calls at the same time. One that needs the user's consent is not run before that is given.

        Each call sees what the others have written into the state so far.

        Args:
            results: stores the results of calls that end before the others.

        Returns:
            The results that are not stored yet, in the order of the calls. A call that failed has the response `{"error": …}`.

        Raises:
            BaseException: whatever a callback raises; or what storing does.
        """
        self.number(calls)
        shared = StepState() if len(calls) > 1 else None
        left: dict[asyncio.Task[ToolResult], FunctionCall] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    result = self._result(call, decided, answers.get(call.id or ""), shared)
                    left[group.create_task(result, name=f"tool {call.name!r} of agent {self._context.agent_name!r}")] = call
                if shared is not None:
                    await self._keep_ended(left, results)
        except ExceptionGroup as failures:
            # Only callbacks raise here, and the run fails with what they raised, not with the group around it.
            first = failures.exceptions[0]
            raise first.error if isinstance(first, _CallbackFailure) else first from None
        finally:
            if shared is not None:
                shared.end_step()
        return [_ended(task, call) for task, call in left.items()]

    async def _keep_ended(self, left: dict[asyncio.Task[ToolResult], FunctionCall], results: StepResults) -> None:
        """Store the results of calls that end while others run: those that end at about the same time together.

        Args:
            left: the calls, without those whose results are stored.
        """
        running: set[asyncio.Task[ToolResult]] = set(left)
        while running:
            _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            if running:
                _, running = await asyncio.wait(running, timeout=self._spec.limits.results_wait_s)
            if running:
                await self._keep(left, results)

    async def _keep(self, left: dict[asyncio.Task[ToolResult], FunctionCall], results: StepResults) -> None:
        ended = [task for task in left if task.done() and (task.cancelled() or task.exception() is None)]
        kept = {task: result for task in ended if self._may_be_kept(result := _ended(task, left[task]))}
        if kept:
            await results.keep(list(kept.values()))
            for task in kept:
                del left[task]

    def _may_be_kept(self, result: ToolResult) -> bool:
        """True unless the result belongs to the last event: the call waits for the user, or only says how the run goes on.

        The latter has no effect, so it may be called again after a loss.
        """
        tool = self.by_name.get(result.call.name)
        decides = tool is not None and (tool.only_decides or isinstance(tool, FinishTaskTool))
        return result.response is not None and not result.shown and not decides

    async def _result(
        self, call: FunctionCall, decided: Decisions, answered: UserAnswer | None, shared: StepState | None
    ) -> ToolResult:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            result = await self._checked_result(call, decided, answered, Actions(shared))
            if not isinstance(self.by_name.get(call.name), AskingTool):
                result.duration_s = loop.time() - began_s
            return result
        except BaseException as error:
            if is_cancellation(error):
                raise
            raise _CallbackFailure(error) from error

    async def _checked_result(
        self, call: FunctionCall, decided: Decisions, answered: UserAnswer | None, actions: Actions
    ) -> ToolResult:
        if is_malformed(call):
            given = (call.args or {})[MALFORMED]
            return ToolResult(call, actions, {"error": f"the arguments of {call.name} are no JSON object: {given}"})
        tool = self.by_name.get(call.name) or _MissingTool(call.name, self._unknown(call.name))
        if (response := decided.get(call.id or "")) is not None:
            return ToolResult(call, actions, response)
        if tool.require_confirmation and answered is None and await self._ask(tool, call):
            return ToolResult(call, actions, None)
        try:
            context = self._tool_context(call.id or "", actions, answered, partial(self._report, call))
            made = CallTool(call=call, tool=tool, args=dict(call.args or {}), context=context, perform=_perform)
            try:
                result = await self._interceptors.call_tool(made)
            except BaseException as error:  # A tool is the user's code: whatever it raises, the model gets it and goes on.
                if error is not made.error:
                    raise
                self._log(tool.name, error)
                result = {"error": f"{code_of(error)}: {error_text(error)}"}
            if isinstance(result, Paused):
                return ToolResult(call, actions, None, waits=result)
            if result is None and tool.is_long_running:
                return ToolResult(call, actions, None)
            if actions.requested_inputs and (result is None or actions.requested_tool_confirmations):
                return ToolResult(call, actions, None, _check_actions(actions))
            actions.forget_questions()
            data, size = fast_form(result) or await self._any_form(call.name, result)
            response = data if isinstance(data, dict) else {"result": data}
            if self.large.is_large(size):
                response, size = await self.large.shorten(call, response, actions)
            shown = _as_text(data) if tool.shows_result and actions.skip_summarization and "error" not in response else ""
            return ToolResult(call, actions, response, size + _check_actions(actions), shown)
        except (NotEncodableError, InvalidIdError) as error:
            # Nothing of such a call can be stored, its state included: the event would fail as a whole.
            self._log(call.name, error)
            return ToolResult(call, Actions(), {"error": f"the result of {call.name} cannot be stored: {error_text(error)}"})

    async def _any_form(self, tool: str, result: object) -> tuple[JsonValue, int]:
        """The stored form of a result that JSON does not know, and its bytes. It calls the user's code, so in a thread."""
        changed: dict[str, None] = {}
        form = await in_thread(any_form, result, changed.setdefault)
        if changed:
            what = "; ".join(list(changed)[:3])
            logger.warning("the result of tool %r of agent %r is not stored as it was: %s", tool, self._context.agent_name, what)
        return form

    async def _report(self, call: FunctionCall, value: object) -> None:
        """Show readers how far a call is."""
        data, _ = fast_form(value) or await self._any_form(call.name, value)
        shown = shortened(data if isinstance(data, dict) else {"result": data}, self._spec.limits.max_inline_bytes)
        response = FunctionResponse(id=call.id, name=call.name, response=shown, will_continue=True)
        await self._context.emit(Event(content=Content(role=USER, parts=[Part(function_response=response)]), partial=True))

    def _unknown(self, name: str) -> str:
        available = ", ".join(self.by_name) if self.by_name else "none"
        return f"there is no tool {name!r}.{did_you_mean(name, self.by_name)} Available tools: {available}"

    def _log(self, tool: str, error: BaseException) -> None:
        """Log what the model is given as an error of a tool; where it was raised stays in the log."""
        what = f"tool {tool!r} of agent {self._context.agent_name!r}"
        traceback = foreign_traceback(error)
        # Without a frame of users' code the model has called the tool wrongly, and may mend that by itself.
        level = logging.WARNING if traceback else logging.INFO
        log_failure(logger, level, what, self._context, error, traceback)

    async def _delegate(self, name: str, call_id: str, data: JsonValue) -> AnyOutcome:
        number = self._numbers.get(call_id)
        run_id = str(number) if number is not None else call_segment(call_id)
        return await self._context.delegate(name, run_id, call_id, data)

    def _tool_context(
        self,
        call_id: str,
        actions: Actions,
        answered: UserAnswer | None = None,
        report: Report | None = None,
    ) -> ToolContext:
        context = self._context
        return ToolContext(
            function_call_id=call_id,
            ask=context.ask_agent,
            delegate=self._delegate,
            report=report,
            inbox=context.inbox,
            offload=context.offload,
            input=answered if isinstance(answered, AnsweredInput) else None,
            tool_confirmation=answered if isinstance(answered, ToolConfirmation) else None,
            artifacts=context.artifacts,
            actions=actions,
            **facts_for_user_code(context),
        )


async def _perform(call: CallTool) -> object:
    """Run a tool."""
    try:
        return await call.tool.run(call.args, call.context)
    except (FencedError, ActorLostError, NotCarriedOverError):
        # Not the tool's fault: an agent that it has asked cannot go on here, or the program cannot.
        raise
    except BaseException as error:
        if not is_cancellation(error):
            call.fail(error)
        raise


def _ended(task: asyncio.Task[ToolResult], call: FunctionCall) -> ToolResult:
    """The result of a call that has ended."""
    # A tool may cancel the task it runs in: it has no response then, and no other call is concerned.
    return ToolResult(call, Actions(), {"error": f"{call.name} was cancelled by itself"}) if task.cancelled() else task.result()


def is_malformed(call: FunctionCall) -> bool:
    """True if the model's arguments are no JSON object."""
    return bool(call.args) and MALFORMED in (call.args or {})


def _check_actions(actions: Actions) -> int:
    """Check that what a tool has done besides can be stored; return its bytes. Raises NotEncodableError, InvalidIdError."""
    if actions.freeze() == NO_ACTIONS:
        return 0
    actions.state_delta = stored_delta(actions.state_delta)
    state.check(actions.state_delta)
    raw = encode(actions.freeze())
    try:
        decode(raw, EventActions)
    except msgspec.DecodeError as error:
        raise NotEncodableError("action", str(error)) from error
    return len(raw)


class _MissingTool(Tool):
    """Stands for a tool that the model made up, so that on_tool_error callbacks may answer for it as well."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    def declaration(self) -> FunctionDeclaration:
        raise ValueError(self._reason)

    async def run(self, args: JsonObject, context: ToolContext) -> Any:
        raise ValueError(self._reason)


def _as_text(data: JsonValue) -> str:
    if data is None or isinstance(data, str):
        return data or ""
    return json.dumps(data, ensure_ascii=False)

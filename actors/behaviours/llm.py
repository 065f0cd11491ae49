"""What an LLM agent does: call the model, run the tools it calls, and again, until it has answered (semantics.md section 5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from actors.behaviours.interceptor import RunInterceptor, RunTools, TakeStep
from actors.behaviours.lifecycle import run_lifecycle
from actors.behaviours.model_call import AgentPrompt, ModelCall, output_keeper
from actors.behaviours.tool_calls import (
    NO_ANSWERS,
    CallAnswers,
    Decisions,
    StepResults,
    ToolCalls,
    UserAnswer,
    has_more,
    held_decisions,
    pause_of,
)
from actors.definitions.agents.agent_tools import FinishTaskTool
from actors.definitions.spec import AgentSpec, OwnTools, may_wait
from actors.definitions.tools.base import Tool
from actors.interfaces.context import Context
from actors.interfaces.model import Model
from actors.messages.content import FunctionCall
from actors.messages.event import Event
from actors.messages.protocol.runs import AnyOutcome, Finished, Paused, Transfer, path_of_words, words_call
from actors.messages.topology import TASK
from actors.rules.checks import user_message


def run_llm(spec: AgentSpec, model: Model, context: Context, interceptors: RunInterceptor) -> Coroutine[Any, Any, AnyOutcome]:
    """One run of an LLM agent, from its turn's message to its final response, a transfer or a pause.

    Args:
        interceptors: what features do around its calls.
    """
    run = LlmRun(spec, model, context, interceptors)
    return run.answer() if not context.done and any(context.user_content.function_responses()) else run.begin()


class LlmRun:
    """The steps of one run: each is a model call and the tools that the model calls."""

    _has_asked = False

    def __init__(self, spec: AgentSpec, model: Model, context: Context, interceptors: RunInterceptor) -> None:
        finish = self._finish = FinishTaskTool(spec.llm_agent.output_type) if spec.mode == TASK else None
        self._spec = spec
        self._context = context
        self._interceptors = interceptors
        self._held = held_decisions(context.done)
        tools = self._tools = ToolCalls(spec, context, interceptors, _own_tools(spec, finish, interceptors.tools()))
        keep = self._keep_output = output_keeper(spec) if finish is None else None
        self._model_call = ModelCall(spec, model, context, interceptors, AgentPrompt(spec, context), tools, keep)

    def begin(self) -> Coroutine[Any, Any, AnyOutcome]:
        """The run from its beginning to its end; first what one that was lost, or has paused, has left to do."""
        return self._run(self._finish_last_step if self._context.done else None)

    async def answer(self) -> AnyOutcome:
        """The run from its beginning to its end, when the user has answered calls."""
        answered = [response.id for response in self._context.user_content.function_responses()]
        if waiting := (await self._context.view()).still_open(answered):
            return Paused(call_ids=waiting)
        return await self._run(self._run_decided_calls)

    def _run(self, left: Callable[[], Awaitable[AnyOutcome | None]] | None) -> Coroutine[Any, Any, AnyOutcome]:
        return run_lifecycle(self._spec, self._context, partial(self._steps, left), self._keep_output)

    async def _steps(self, left: Callable[[], Awaitable[AnyOutcome | None]] | None) -> AnyOutcome:
        """Do what is left to do before the next step, and go on to the end of the run, if that does not end it."""
        outcome = await left() if left is not None else None
        step = TakeStep(perform=self._step, run_tools=self._run_calls)
        while outcome is None:
            outcome = await self._interceptors.take_step(step)
        return await self._unless_waiting(outcome) if self._may_wait() else outcome

    async def _unless_waiting(self, outcome: AnyOutcome) -> AnyOutcome:
        """The outcome of the run: what has asked for an answer that the user has not given is not finished."""
        match outcome:
            case Finished() if waiting := await self._waiting():
                return Paused(call_ids=waiting)
            case Paused(call_ids=known) if any(map(path_of_words, known)):
                return Paused(call_ids=tuple(dict.fromkeys((*known, *await self._waiting()))))
            case Transfer() if waiting := await self._waiting():
                return msgspec.structs.replace(outcome, call_ids=waiting)
        return outcome

    async def _waiting(self) -> tuple[str, ...]:
        """The agent's calls of this turn that the user has not answered, also long-running ones with an interim response."""
        return (await self._context.view()).waiting(self._context.invocation_id) if self._may_wait() else ()

    def _may_wait(self) -> bool:
        """False when no call of this turn can wait for the user, whatever the log says."""
        # Any tool may ask the user something; a run that goes on knows only by the log whether one has.
        if self._has_asked or self._context.done:
            return True
        tools = self._tools
        if tools.given.may_wait or tools.by_name is tools.own:
            return tools.given.may_wait
        return may_wait(tools.by_name.values())

    async def _finish_last_step(self) -> AnyOutcome | None:
        """Finish the step in which the run was lost, without what the log has of it; None if the model is to be called next."""
        last = self._context.done[-1]
        calling = next((event for event in reversed(self._context.done) if any(event.function_calls())), None)
        # The turn's message came after the last event, so the run was paused, and the message answers a call of this agent or
        # of another one.
        answered = set(user_message.answers(self._context.user_content))
        was_paused = self._context.user_seq > last.seq
        for event in self._context.done:
            self._tools.number(event.function_calls())
        if self._finish is not None and last.output is not None:
            return Finished()
        if self._finish is not None and last.is_final_response() and not any(last.function_calls()):
            return None if self._context.words_seq > last.seq else self._waits_for_words()
        if last.actions.transfer_to_agent is not None and not was_paused:
            return Transfer(to=last.actions.transfer_to_agent, seq=last.seq)
        if calling is not None and has_more(last) and not was_paused:
            if answered.isdisjoint(call.id for call in calling.function_calls()):
                return await self._run_left(calling)
            # They were run with the user's answers, which decide what is left to do.
            was_paused = True
        if calling is not None and (was_paused or calling is not last):
            responded = self._responded()
            delegated = [call for call in self._tools.delegated(calling.function_calls()) if call.id not in responded]
            if delegated:
                return await self._finish_delegated(calling, delegated)
            waiting = (await self._context.view()).still_open([call.id for call in calling.function_calls()])
            if waiting:
                return Paused(call_ids=waiting)
        called = {call.id for event in self._context.done for call in event.function_calls()}
        if was_paused:
            if not called.isdisjoint(answered):
                return await self._run_decided_calls()
            if waiting := await self._waiting():
                return Paused(call_ids=waiting)
        if calling is last:
            return await self._run_left(calling)
        has_ended = last.content is not None or (last.error_code is not None and last.model_version is not None)
        if last.is_final_response() and has_ended:
            return Finished()
        # Without a call of its own, the run may have to do yet what the message decides with which it began.
        return None if called else await self._run_decided_calls()

    async def _run_left(self, calling: Event) -> AnyOutcome | None:
        """Run the calls of an event that have no result; None if the model is to be called with the results."""
        responded = self._responded()
        calls = [call for call in calling.function_calls() if call.id not in responded]
        await self._model_call.find_appended_tools(calls)
        return await self._run_calls(calls)

    def _responded(self, after_seq: int = 0) -> set[str | None]:
        """The ids of the calls that have results in what the run had stored until it was lost."""
        return {each.id for event in self._context.done if event.seq > after_seq for each in event.function_responses()}

    async def _finish_delegated(self, calling: Event, delegated: Sequence[FunctionCall]) -> AnyOutcome | None:
        """Go on with calls for which agents work, and run those that the user's message decides; None if all have responses."""
        ids = [call.id for call in calling.function_calls()]
        is_decided = not set(ids).isdisjoint(user_message.answers(self._context.user_content))
        outcomes = [await self._run_decided_calls() if is_decided else None, await self._run_calls(delegated)]
        if waiting := (await self._context.view()).still_open(ids):
            outcomes.append(Paused(call_ids=waiting))
        paused = [outcome for outcome in outcomes if isinstance(outcome, Paused)]
        if not paused:
            return outcomes[0] or outcomes[1]
        call_ids = dict.fromkeys(call_id for each in paused for call_id in each.call_ids)
        return Paused(call_ids=tuple(call_ids))

    async def _step(self) -> AnyOutcome | None:
        """Call the model, and run the tools that it calls; None if the model is to be called again."""
        response = await self._model_call.run()
        if response is None:
            return Finished()
        calls = list(response.function_calls())
        if calls and self._tools.only_decide(calls):
            # Running them has no effect that the log would have to know of first: calls and responses are stored in one go.
            return await self._run_calls(calls, together_with=response)
        is_last = not calls and self._finish is None and not self._spec.hooks("after_agent_callback")
        if is_last and self._may_wait():
            is_last = not await self._waiting()
        response = await self._context.emit(response, is_last=is_last)
        # An interceptor may have put another event in its place.
        calls = list(response.function_calls())
        if calls:
            return await self._run_calls(calls)
        # What is only said does not end a task.
        return Finished() if self._finish is None else self._waits_for_words()

    def _waits_for_words(self) -> Paused:
        return Paused(call_ids=(words_call(self._context.node_path),))

    def _with_output(self, event: Event, calls: Sequence[FunctionCall]) -> Event:
        """The event of responses, with the output of the task if one of them says that it is over."""
        output = self._finish.finished(event, {call.id or "": call.args for call in calls}) if self._finish is not None else None
        if output is None:
            return event
        key, actions = self._spec.llm_agent.output_key, event.actions
        if key:
            actions = msgspec.structs.replace(actions, state_delta={**actions.state_delta, key: output})
        return msgspec.structs.replace(event, output=output, actions=actions)

    async def _run_decided_calls(self) -> AnyOutcome | None:
        """Run the calls that the user confirms with the turn's message, or answers questions of; refuse what is declined."""
        ids = [response.id for response in self._context.user_content.function_responses()]
        decisions = (await self._context.view()).user_replies(ids) if ids else []
        calls: list[FunctionCall] = []
        answers = CallAnswers()
        await self._model_call.find_appended_tools(reply.call for reply in decisions)
        has_result = self._responded(self._context.user_seq)
        for call, given, stored, asked in decisions:
            if call.id in has_result:
                continue
            tool = self._tools.by_name.get(call.name)
            if asked is None and (tool is None or not tool.require_confirmation):
                continue
            calls.append(call)
            if asked is None and stored is not None:
                # A second yes gets what came of the first: the tool is run once.
                answers.decided[call.id or ""] = stored.response
            else:
                answers.add(call.id or "", call.name, given.response, asked)
        return await self._run_calls(calls, answers.decided, answers.given) if calls else None

    async def _run_calls(
        self,
        calls: Sequence[FunctionCall],
        decided: Decisions | None = None,
        answers: Mapping[str, UserAnswer] = NO_ANSWERS,
        together_with: Event | None = None,
    ) -> AnyOutcome | None:
        """Run tools, and store their responses; None if the model is to be called with them.

        Args:
            decided: the responses of calls that are not run after what the user has decided.
            answers: what the user has said to calls that are run with it.
            together_with: the event that makes the calls, if it is not stored yet.
        """
        perform = partial(self._run_tools, answers=answers)
        tools = RunTools(calls=calls, decided=dict(decided or {}), together_with=together_with, perform=perform)
        return await self._interceptors.run_tools(tools)

    async def _run_tools(self, tools: RunTools, answers: Mapping[str, UserAnswer]) -> AnyOutcome | None:
        async def store(event: Event, is_last: bool) -> Event:
            if is_last:
                event = self._with_output(event, tools.calls)
            if tools.together_with is None:
                return await self._context.emit(event)
            return (await self._context.emit_all([tools.together_with, event]))[-1]

        step = StepResults(store, self._spec.limits, self._tools.large, self._held)
        self._held = {}
        results, event = await step.end(await self._tools.run(tools.calls, tools.decided, step, answers))
        self._has_asked = self._has_asked or bool(event is not None and event.actions.requested_inputs)
        if event is not None and event.actions.transfer_to_agent:
            return Transfer(to=event.actions.transfer_to_agent, seq=event.seq)
        if (paused := pause_of(results)) is not None:
            return paused
        if event is None or event.actions.skip_summarization or event.output is not None:
            return Finished()
        return None


def _own_tools(spec: AgentSpec, finish: FinishTaskTool | None, more: Sequence[Tool]) -> OwnTools:
    """The tools of an agent by name: its own, the one that ends its task, those of interceptors, and those of transfers.

    Args:
        finish: ends the task of an agent that works on one; None for any other agent.
        more: the tools of interceptors.
    """
    if finish is None and not more:
        return spec.own_tools
    by_name: dict[str, Tool] = {tool.name: tool for tool in spec.llm_agent.tools}
    if finish is not None:
        by_name[finish.name] = finish
    by_name.update((tool.name, tool) for tool in more)
    by_name.update(spec.tools_of_transfers(by_name))
    return OwnTools(by_name)

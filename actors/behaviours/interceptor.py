"""The seam around what a run does: a chain of interceptors, as Temporal has it. Each calls the next, and the core is the last.

A feature overrides the methods that it needs, and calls `self.next` with what it was given, or does not. Which interceptors a run
has, and their order, `actors.layers.interceptors` says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import msgspec

from actors.definitions.spec import AgentSpec
from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.errors.user_code import is_cancellation
from actors.interfaces.context import Context
from actors.interfaces.model import Model, Responses
from actors.messages.content import Content, FunctionCall
from actors.messages.event import Event, Usage
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmRequest, LlmResponse
from actors.messages.protocol.log import Append, Appended
from actors.messages.protocol.runs import AnyOutcome, Invoke
from actors.messages.topology import LLM
from actors.refs import RunnerRef, SessionRef
from actors.rules.checks import model_answer
from actors.rules.prompt.history import LogLedger

logger = logging.getLogger(__name__)


class EventInsteadError(Exception):
    """Raised by an interceptor around a model call that is not made: the run emits an event in its place."""

    def __init__(self, event: Event) -> None:
        super().__init__()
        self.event = event


class CallLeftOutError(Exception):
    """Raised by an interceptor around an optional model call that is not made.

    Attributes:
        reason: why, for the log of the process.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PrepareRequest(msgspec.Struct, eq=False, kw_only=True):
    """A request is changed before it is sent, in place.

    Attributes:
        request: a copy of what the agent asks: nothing else has its contents.
        context: of callbacks that change it.
        perform: has the agent's tools change it. Returns None.
    """

    request: LlmRequest
    context: CallbackContext
    perform: Callable[[], Awaitable[None]]


class CallModel(msgspec.Struct, eq=False, kw_only=True):
    """A model call. Interceptors may set its fields before they pass it on.

    Attributes:
        name: the model's name, where the request has none.
        event_id: of the event that will have the response, and of its pieces.
        context: gives the context of callbacks that see the call.
        show: takes the pieces of the response before it is complete; None: there is no reader for them.
        streams: the model is to yield pieces.
        is_optional: the run can do without it.
        before: awaited when nothing is against the call any more, before the model is asked; None: nothing is to be done.
        error: what the model has raised, or what was wrong with its response.
        model_version, usage, duration_s: which model has answered, its tokens, and its time; None and 0 before.
    """

    model: Model
    name: str
    request: LlmRequest
    event_id: str
    context: Callable[[], CallbackContext]
    show: Callable[[Content | None], Awaitable[None]] | None = None
    streams: bool = False
    is_optional: bool = False
    before: Callable[[], Awaitable[None]] | None = None
    error: BaseException | None = None
    model_version: str | None = None
    usage: Usage | None = None
    duration_s: float = 0.0

    @property
    def is_answered(self) -> bool:
        """The model has responded."""
        return self.model_version is not None


class CallTool(msgspec.Struct, eq=False, kw_only=True):
    """A call of a tool.

    Attributes:
        call: as the model made it.
        args: of the call, as a copy.
        context: what the tool is given.
        perform: runs the tool, and returns its result.
        error: what the tool has raised: unless an interceptor has a result in its place, the model gets it as the result.
    """

    call: FunctionCall
    tool: Tool
    args: JsonObject
    context: ToolContext
    perform: Callable[[CallTool], Awaitable[object]]
    error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """The tool has raised: what it wanted to ask the user is not asked."""
        self.context.actions.forget_questions()
        self.error = error


class RunTools(msgspec.Struct, eq=False, kw_only=True):
    """The tools of one response are run, and their results stored.

    Attributes:
        calls: of the response.
        decided: the responses of calls that are not run, by id.
        together_with: the event that makes the calls, if it is not stored yet.
        perform: does it. Returns None if the model is to be called with the results.
    """

    calls: Sequence[FunctionCall]
    decided: dict[str, JsonObject]
    together_with: Event | None
    perform: Callable[[RunTools], Awaitable[AnyOutcome | None]]


class TakeStep(msgspec.Struct, eq=False, kw_only=True):
    """One step of a run: a model call, and the tools that the model calls.

    Attributes:
        perform: takes it. Returns None if another step follows.
        run_tools: runs calls that the log has already, as a step does.
    """

    perform: Callable[[], Awaitable[AnyOutcome | None]]
    run_tools: Callable[[Sequence[FunctionCall]], Awaitable[AnyOutcome | None]]


@dataclass(slots=True)
class RunParts:
    """What interceptors get of a run.

    Attributes:
        context: the run, as its behaviour has it.
        resolve: returns the model for an agent's name and its model, a name or an object. Raises UnknownModelError.
        counts: the actor's figures.
        llm_calls: model calls of the run, out of the allowance that came with it.
    """

    spec: AgentSpec
    message: Invoke
    context: Context
    session: SessionRef
    runner: RunnerRef
    resolve: Callable[[str, str | Model], Model]
    counts: dict[str, int]
    llm_calls: int = 0


class RunInterceptor:
    """What a feature does around the calls of one run. Every method passes on what it is given.

    Attributes:
        next: the interceptor after this one.
        changes_requests: it overrides `prepare_request`, so requests are copies.
        ledger: makes what it folds of the log that the agent sees: `History.ledger`. One interceptor has one.
    """

    next: RunInterceptor
    changes_requests: bool = False
    ledger: ClassVar[Callable[[], LogLedger] | None] = None

    def __init__(self, run: RunParts) -> None:
        self.run = run

    @classmethod
    def concerns(cls, spec: AgentSpec) -> bool:
        """Whether runs of the agent may have the feature: asked once for each agent. By default those of LLM agents."""
        return spec.kind == LLM

    @classmethod
    def of(cls, run: RunParts) -> Self | None:
        """The interceptor of a run; None where the feature is off. By default every run that is concerned has one."""
        return cls(run)

    def tools(self) -> Sequence[Tool]:
        """Tools that the agent has in this run beside its own."""
        return self.next.tools()

    def take_step(self, step: TakeStep) -> Awaitable[AnyOutcome | None]:
        """Around a step of an agent in a conversation: see TakeStep."""
        return self.next.take_step(step)

    def prepare_request(self, prepare: PrepareRequest) -> Awaitable[LlmResponse | None]:
        """Around changes of a request: see PrepareRequest. Returns the response that takes the call's place; None: it is made.

        It is called again when a run goes on at calls of tools that it may have added to the request; nothing is sent then.
        """
        return self.next.prepare_request(prepare)

    def call_model(self, call: CallModel) -> Awaitable[LlmResponse]:
        """Around a model call: see CallModel. Raises what the model raises, which is then `call.error`, and other errors."""
        return self.next.call_model(call)

    def run_tools(self, tools: RunTools) -> Awaitable[AnyOutcome | None]:
        """Around the tools of one response: see RunTools."""
        return self.next.run_tools(tools)

    def call_tool(self, call: CallTool) -> Awaitable[object]:
        """Around a call of a tool: see CallTool. Returns its result; Paused: it waits for what an agent waits for.

        Raises what the tool raises, which is then `call.error`, and other errors, with which the run fails.
        """
        return self.next.call_tool(call)

    def change_event(self, event: Event) -> Awaitable[Event]:
        """Return an event that the run emits, or another one in its place."""
        return self.next.change_event(event)

    def append(self, append: Append) -> Awaitable[Appended]:
        """Around the storing of events, by the Session actor. Raises what `SessionRef.append` raises."""
        return self.next.append(append)

    def end_run(self) -> Awaitable[None]:
        """The run has ended by itself, before its outcome is returned."""
        return self.next.end_run()

    def abandon(self) -> None:
        """The run was stopped, and its code does not end: release what it holds."""
        self.next.abandon()


class PlainCalls(RunInterceptor):
    """The last interceptor of a run: it makes the calls."""

    def tools(self) -> Sequence[Tool]:
        """No further tools."""
        return ()

    def take_step(self, step: TakeStep) -> Awaitable[AnyOutcome | None]:
        """Take the step."""
        return step.perform()

    async def prepare_request(self, prepare: PrepareRequest) -> LlmResponse | None:
        """Have tools change the request."""
        await prepare.perform()
        return None

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Ask the model, show the pieces of its response, and return the whole one."""
        if call.before is not None:
            await call.before()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        answer = model_answer.ModelAnswer(call.name)
        not_shown: BaseException | None = None
        try:
            async with Responses(call.model, call.request, stream=call.streams) as responses:
                async for response in responses:
                    if not getattr(response, "partial", False):
                        answer.add_complete(response)
                    elif call.show is not None:
                        piece = answer.add_partial(response.content, self.run.spec.limits.max_inline_bytes)
                        try:
                            await call.show(piece)
                        except BaseException as error:
                            not_shown = error
                            raise
            whole = model_answer.checked_response(answer.complete(), call.name, logger.warning)
        except BaseException as error:  # A model is foreign code, which may raise anything.
            if error is not not_shown and not is_cancellation(error):
                call.error = error
            raise
        finally:
            call.duration_s = loop.time() - began_s
        call.model_version, call.usage = whole.model_version or call.request.model or call.name, whole.usage
        return whole

    def run_tools(self, tools: RunTools) -> Awaitable[AnyOutcome | None]:
        """Run the tools."""
        return tools.perform(tools)

    def call_tool(self, call: CallTool) -> Awaitable[object]:
        """Run the tool."""
        return call.perform(call)

    async def change_event(self, event: Event) -> Event:
        """Return the event."""
        return event

    def append(self, append: Append) -> Awaitable[Appended]:
        """Store the events."""
        return self.run.session.ask(append)

    async def end_run(self) -> None:
        """Nothing is left to do."""

    def abandon(self) -> None:
        """It holds nothing."""


def linked(interceptors: Sequence[type[RunInterceptor]], run: RunParts) -> RunInterceptor:
    """Link the interceptors of a run to a chain that ends with the calls themselves. Returns the first."""
    first: RunInterceptor = PlainCalls(run)
    made = [interceptor for each in interceptors if (interceptor := each.of(run)) is not None]
    for each in reversed(made):
        each.next = first
        each.changes_requests = each.changes_requests or first.changes_requests
        first = each
    return first

"""The turns of a program: the messages with which its Runtime starts them or answers their calls, and how it joins them."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from actors.errors import RequestError, TurnStateError
from actors.layers.flows.definitions import FlowPlan, ResultType
from actors.layers.listing.messages import ListPending, PendingCall
from actors.layers.retries import RetryTurn
from actors.messages import protocol as p
from actors.messages.codec import encode, plain
from actors.messages.content import Content, FunctionResponse, Part
from actors.messages.event import new_event_id, new_invocation_id
from actors.messages.json_types import JsonMapping, JsonObject
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.messages.session import SessionKey, TurnKey
from actors.rules.checks.ids import checked_id, checked_key, checked_known_id, checked_known_key
from actors.rules.checks.questions import CONFIRMED, full_answer, scope_of
from runtime.driver.arguments import RunOptions, checked_choice, has_function_responses, run_config_of, to_content, to_state
from runtime.driver.engine_client import EngineClient
from runtime.driver.history import Start, beside, replacing
from runtime.driver.turns.client import TurnClient
from runtime.driver.turns.state import TurnState
from runtime.driver.turns.turn import Answers, OnLeave, Turn
from runtime.engine.deployment import FlowRegistry
from runtime.observability.telemetry.caller import callers_traceparent


class ProgramTurns:
    """Makes turns for a Runtime while it is open."""

    def __init__(self, client: EngineClient, types: FlowRegistry[Mapping[str, ResultType]], answer: Callable[..., Turn]) -> None:
        self._client = client
        self._answer = answer
        self._turns: TurnClient | None = None
        self.types = types

    @property
    def is_open(self) -> bool:
        """True from `open` to `close`."""
        return self._turns is not None

    def open(self) -> None:
        """Make turns from now on: the engine has started."""
        self._turns = TurnClient(self._client)

    def close(self) -> TurnClient:
        """Make no turns any more, and return what follows those that were made. Raises RuntimeClosedError."""
        turns = self.client()
        self._turns = None
        return turns

    def client(self) -> TurnClient:
        """The client that starts and follows turns. Raises RuntimeClosedError."""
        self._client.check_process()
        if self._turns is None:
            raise self._client.not_open()
        return self._turns

    def message(
        self,
        user_id: str,
        session_id: str,
        message: Any,
        run_config: RunOptions | None,
        state_delta: JsonMapping | None,
        invocation_id: str | None,
        auto_create_session: bool | None,
        fingerprint: str = "",
    ) -> p.StartTurn:
        """The message that starts a turn: see Runtime.run, also for what it raises."""
        if invocation_id is not None:
            checked_id("invocation id", invocation_id)
        return p.StartTurn(
            key=checked_key(self._client.app_name, user_id, session_id),
            invocation_id=invocation_id or new_invocation_id(),
            repeatable=invocation_id is not None,
            event_id=new_event_id(),
            content=to_content(message),
            config=run_config_of(run_config),
            state_delta=to_state(state_delta),
            traceparent=callers_traceparent(),
            auto_create=self._client.engine.auto_create_session if auto_create_session is None else auto_create_session,
            fingerprint=fingerprint,
        )

    def start_plan(self, message: p.StartTurn, plan: FlowPlan, on_leave: OnLeave) -> Turn:
        """Start a turn that carries out a flow."""
        name = plan_name(plan, (message.key, message.invocation_id))
        # Turns that answer this one, or are attached to it, give typed results as well.
        self.types.add(name, plan.results)
        return self.start(msgspec.structs.replace(message, flow=name), plan, on_leave)

    def start(self, message: p.StartTurn, plan: FlowPlan | None = None, on_leave: OnLeave = "cancel") -> Turn:
        """Start a turn. Raises RuntimeClosedError."""
        turns = self.client()
        state = TurnState(message.key, message.invocation_id, is_answer=has_function_responses(message.content))
        state.fingerprint = message.fingerprint
        state.may_join = message.config.on_concurrent_turn == "steer"
        turn = self._turn(turns, state, on_leave)
        turns.start_soon(state, message, plan)
        return turn

    def attach(self, state: TurnState, after_seq: int) -> Turn:
        """Join a turn that is there. Raises RuntimeClosedError."""
        turns = self.client()
        turns.attach_soon(state, after_seq)
        return self._turn(turns, state, "continue", is_attached=True)

    def retry(self, state: TurnState, message: RetryTurn, on_leave: OnLeave) -> Turn:
        """Run a turn on, and join it. Raises RuntimeClosedError, RequestError."""
        turns = self.client()
        turn = self._turn(turns, state, on_leave)
        turns.attach_soon(state, 0, message)
        return turn

    def answer(self, key: SessionKey, answers: Answers, run_config: RunOptions | None, on_leave: OnLeave) -> Turn:
        """Start a turn with answers to calls, by the ids of these. Raises RuntimeClosedError, RequestError."""
        turns = self.client()
        invocation_id, event_id, traceparent = new_invocation_id(), new_event_id(), callers_traceparent()

        async def build() -> p.StartTurn:
            message = ListPending(app=key.app, user=key.user, session=key.session, with_open=True)
            pending = (await self._client.session.ask(message)).calls
            return p.StartTurn(
                key=key,
                invocation_id=invocation_id,
                event_id=event_id,
                content=to_message(answers, pending, key.session),
                # Another answer may be under way, or in line.
                only_waiting=True,
                config=run_config_of(run_config),
                traceparent=traceparent,
            )

        state = TurnState(key, invocation_id, is_answer=True)
        turn = self._turn(turns, state, on_leave)
        turns.answer_soon(state, build)
        return turn

    def start_after(self, message: p.StartTurn, start: Start, on_leave: OnLeave) -> Turn:
        """Start a turn when what comes before it is done. Raises RuntimeClosedError."""
        turns = self.client()
        state = TurnState(message.key, message.invocation_id)
        turn = self._turn(turns, state, on_leave)
        turns.answer_soon(state, start)
        return turn

    def edit(
        self,
        user_id: str,
        session_id: str,
        invocation_id: str,
        message: Any,
        run_config: RunOptions | None,
        on_leave: OnLeave,
        *,
        keep: bool,
    ) -> Turn:
        """Replace an earlier message: see TurnsService.edit."""
        key, turn = (
            checked_known_key(self._client.app_name, user_id, session_id),
            checked_known_id("invocation id", invocation_id),
        )
        if not keep:
            new = self.message(user_id, session_id, message, run_config, None, None, False)
            return self.start_after(new, replacing(self._client, turn, new), on_leave)
        new = self.message(user_id, uuid.uuid4().hex, message, run_config, None, None, False)
        return self.start_after(new, beside(self._client, key, turn, new), on_leave)

    def _turn(self, turns: TurnClient, state: TurnState, on_leave: OnLeave, *, is_attached: bool = False) -> Turn:
        cancels_on_leave = checked_choice("on_leave", on_leave, ("cancel", "continue")) == "cancel"
        return Turn(turns, state, self.types, cancels_on_leave=cancels_on_leave, answer=self._answer, is_attached=is_attached)

    def follow_session(self, key: SessionKey, after_seq: int) -> Turn:
        """All events of a session, as if they were of one turn that does not end."""
        return self.attach(TurnState(key, WHOLE_SESSION, after_seq=after_seq, keeps=False), after_seq)


def plan_name(plan: FlowPlan, turn: TurnKey) -> str:
    """The name under which a turn's plan is sent: the same for the same turn and tasks, in any program.

    So a flow that is given again with its turn's id is found by a turn whose deployment was lost in between.
    """
    key, invocation_id = turn
    schemas = {name: None if result.is_none else result.schema for name, result in plan.results.items()}
    tools = {task: [tool.name for tool in given] for task, given in plan.tools.items()}
    content = [key.user, key.session, invocation_id, plan.nodes, plan.goal, plan.rules, schemas, tools]
    if plan.context or plan.until is not None:
        # Without them a flow keeps the name under which older logs have it.
        content += [plan.context, plan.until]
    return f"{plan.name}/{hashlib.sha256(encode(plain(content))).hexdigest()[:32]}"


def to_answers(call: str | PendingCall | Answers, response: object, confirmed: bool | None) -> dict[str, object]:
    """The answers that a program gives: one with `response` or `confirmed`, or several in a mapping.

    Raises:
        RequestError: there is no answer, or more than one way to give it.
        InvalidIdError: the id of a call is none.
    """
    if confirmed is not None and not isinstance(confirmed, bool):
        raise RequestError(f"confirmed must be True or False, not {type(confirmed).__name__}")
    if isinstance(call, Mapping):
        if response is not None or confirmed is not None:
            raise RequestError("a mapping of call ids has the answers itself: give neither response nor confirmed with it")
        if not call:
            raise RequestError("there is no answer: the mapping of call ids is empty")
        return {checked_id("call id", call_id): answer for call_id, answer in call.items()}
    if (response is None) == (confirmed is None):
        raise RequestError(
            "an answer is either response=…, the result of the call, or confirmed=True or False: rt.answer(call_id, response=…, "
            "user_id=…, session_id=…)"
        )
    call_id = checked_id("call id", call.call_id if isinstance(call, PendingCall) else call)
    return {call_id: response if confirmed is None else {CONFIRMED: confirmed}}


def to_message(answers: Answers, pending: Sequence[PendingCall], session_id: str) -> Content:
    """One message with all answers.

    Args:
        pending: the calls that wait in the session.

    Raises:
        TurnStateError: an answer is for a call that does not wait.
        RequestError: an answer gives consent where a question is asked, or the calls are of several turns.
        InvalidMessageError: an answer to a question about a budget gives nothing, or not of what is used up.
        NotEncodableError: an answer cannot be stored.
    """
    waiting = {call.call_id: call for call in pending}
    wrong = [call_id for call_id in answers if call_id not in waiting]
    if wrong:
        known = ", ".join(f"{call.call_id!r} ({call.name} of agent {call.agent!r})" for call in pending) or "none"
        raise TurnStateError(f"call {wrong[0]!r} waits for no answer in session {session_id!r}. Calls that wait: {known}")
    turns = {waiting[call_id].invocation_id for call_id in answers}
    if len(turns) > 1:
        raise RequestError(f"the calls are of the turns {', '.join(sorted(turns))}: one message continues one turn")
    parts = [
        Part(
            function_response=FunctionResponse(
                id=call_id, name=waiting[call_id].name, response=_response(waiting[call_id], answer)
            )
        )
        for call_id, answer in answers.items()
    ]
    return Content(role="user", parts=parts)


def _response(call: PendingCall, answer: object) -> JsonObject:
    if isinstance(answer, bool) and call.is_confirmation:
        return {CONFIRMED: answer}
    if scope_of(call.call_id):
        # Before it is encoded: what is no amount at all has no wire form either.
        given = dict(answer) if isinstance(answer, Mapping) else {"result": answer}
        _ = full_answer(call.call_id, given, str(call.args.get("field", "")))
    value = plain(answer)
    if call.question is not None and not call.is_confirmation and isinstance(value, dict) and list(value) == [CONFIRMED]:
        raise RequestError(f"call {call.call_id!r} of {call.name} asks a question, and needs no consent: answer with response=…")
    return value if isinstance(value, dict) else {"result": value}

"""What a program does with turns: it runs them and joins them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from actors.errors import RequestError
from actors.errors.calls import explains_all_wrong_calls
from actors.layers.flows.definitions import FlowPlan, ResultType
from actors.messages import protocol as p
from actors.messages.config import RunOptions, run_config_of
from actors.messages.event import new_event_id, new_invocation_id
from actors.messages.json_types import JsonMapping
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.messages.session import SessionKey
from actors.messages.turn_info import PendingCall
from actors.rules.checks.arguments import checked_choice, checked_number
from actors.rules.checks.ids import checked_id, checked_key, checked_known_id, checked_known_key
from runtime.driver.engine_client import EngineClient
from runtime.driver.flows import plan_name
from runtime.driver.turns.answers import Answers, to_answers, to_message
from runtime.driver.turns.client import TurnClient
from runtime.driver.turns.service import TurnsService
from runtime.driver.turns.state import TurnState
from runtime.driver.turns.turn import OnLeave, Turn
from runtime.driver.user_message import has_function_responses, to_content, to_state
from runtime.driver.waits import Blocking
from runtime.engine.flow_registry import FlowRegistry
from runtime.observability.telemetry.caller import callers_traceparent


@explains_all_wrong_calls
class TurnMethods:
    """The methods of a Runtime that start and join turns.

    Attributes:
        app_name: the app.
        turns: turns as data.
    """

    app_name: str
    turns: TurnsService[Blocking]
    _client: EngineClient
    _turns: TurnClient | None
    _types: FlowRegistry[Mapping[str, ResultType]]

    def run(
        self,
        *,
        user_id: str,
        session_id: str,
        message: Any,
        run_config: RunOptions | None = None,
        state_delta: JsonMapping | None = None,
        invocation_id: str | None = None,
        auto_create_session: bool | None = None,
        on_leave: OnLeave = "cancel",
        fingerprint: str = "",
    ) -> Turn:
        """Start a turn.

        Args:
            message: a text, a Content, a dictionary as web clients send it (see Content.from_dict), or a google.genai Content.
                Function responses answer long-running calls.
            run_config: options of the turn: a RunConfig, or a dictionary of its fields.
            state_delta: changes of session state that come with the message.
            invocation_id: makes the turn repeatable: the same id again joins the same turn.
            auto_create_session: create the session if there is none; None leaves it to the Runtime.
            on_leave: what leaving the turn's iteration before its end does: "cancel" the turn, or let it "continue".
            fingerprint: of the whole request, such as a hash: a turn of this `invocation_id` that began with another one is not
                joined, but its iteration or `result()` raises RepeatMismatchError. It is kept with the message.

        Returns:
            The turn, which runs already. Its errors are raised by iterating it, or by its `result()`.

        Raises:
            InvalidMessageError: the message is of no known kind, or malformed.
            InvalidIdError: an id is invalid.
            NotEncodableError: `state_delta` is no mapping.
            RequestError: `run_config` is wrong, or `on_leave` is neither "cancel" nor "continue".
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        start = self._start_message(
            user_id, session_id, message, run_config, state_delta, invocation_id, auto_create_session, fingerprint
        )
        return self._start(start, on_leave=on_leave)

    def attach(self, *, user_id: str, session_id: str, invocation_id: str, after_seq: int = 0) -> Turn:
        """Join a turn that this program or another has started. Leaving its iteration does not cancel it.

        Args:
            after_seq: give only events with a higher `seq`; 0 gives the turn from its first event. What has been streamed of
                an answer under way comes in any case, from the answer's beginning.

        Returns:
            The turn. Iterating it raises InvocationNotFoundError when there is no such turn.

        Raises:
            InvalidIdError: an id is invalid.
            RequestError: `after_seq` is no whole number, or less than 0.
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        turns = self._open_turns()
        key = checked_known_key(self.app_name, user_id, session_id)
        after_seq = checked_number("after_seq", after_seq)
        state = TurnState(key, checked_known_id("invocation id", invocation_id), after_seq=after_seq)
        turns.attach_soon(state, after_seq)
        return self._turn(turns, state, "continue", is_attached=True)

    def retry(
        self,
        *,
        user_id: str,
        session_id: str,
        invocation_id: str,
        from_event: str | None = None,
        run_config: RunOptions | None = None,
        on_leave: OnLeave = "cancel",
    ) -> Turn:
        """Run a turn that has failed on from its last stored step: what has ended in it is not done again.

        With `from_event` any turn that does not run is run again from a step of it: what came after that is taken back, events
        and state, as by a rewind. What tools have done elsewhere is not.

        Args:
            from_event: the id of one of its events, the last that stays.
            run_config: options of the turn from now on; None: those that it had. Of one that has finished, or was cancelled, they
                are not known any more.
            on_leave: see `run`.

        Returns:
            The turn from there on. One that runs already is joined. Iterating it, or its `result()`, raises
            InvocationNotFoundError when there is no such turn, TurnStateError when it has not failed, and SessionBusyError while
            another turn of the session runs. With `from_event` TurnStateError when the turn runs, or when another one has spoken
            since, and RequestError when it has no such event.

        Raises:
            InvalidIdError: an id is invalid.
            RequestError: `run_config` is wrong, or `on_leave` is neither "cancel" nor "continue".
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        turns = self._open_turns()
        key = checked_known_key(self.app_name, user_id, session_id)
        state = TurnState(key, checked_known_id("invocation id", invocation_id))
        turn = self._turn(turns, state, on_leave)
        config = run_config_of(run_config) if run_config is not None else None
        step = checked_id("event id", from_event) if from_event is not None else ""
        request = new_invocation_id()
        message = p.RetryTurn(key=key, invocation_id=state.invocation_id, config=config, from_event=step, request=request)
        turns.attach_soon(state, 0, message)
        return turn

    def pending(self, *, user_id: str | None = None, session_id: str | None = None, limit: int = 100) -> list[PendingCall]:
        """The calls at which paused turns wait for a person, those of the turn that began last first.

        On an event loop: `await rt.aio.turns.pending(…)`.

        Args:
            user_id: of that user only; None: of all users of the app.
            session_id: of that session of the user only.
            limit: at most so many.

        Raises:
            SessionNotFoundError: there is no such session.
            RequestError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        return self.turns.pending(user_id, session_id, limit)

    def answer(
        self,
        call: str | PendingCall | Answers,
        response: object = None,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        confirmed: bool | None = None,
        run_config: RunOptions | None = None,
        on_leave: OnLeave = "cancel",
    ) -> Turn:
        """Answer calls that wait for a person, in one message; their turn goes on.

        Args:
            call: the call, or its id; or answers to several calls of a turn, by the ids of the calls.
            response: the result of the call: a JSON object, or any other JSON value, which becomes `{"result": …}`. In a mapping
                of answers True and False answer calls that need confirmation.
            user_id, session_id: whose call it is; a PendingCall says it.
            confirmed: True or False in place of a response, for a call that needs confirmation.
            run_config: options of the turn from now on.
            on_leave: see `run`.

        Returns:
            The turn from the answer on. Iterating it, or its `result()`, raises TurnStateError when a call waits for no answer;
            the error names those that do.

        Raises:
            RequestError, InvalidIdError: an argument is wrong.
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        answers = to_answers(call, response, confirmed)
        if isinstance(call, PendingCall):
            user_id, session_id = user_id or call.user_id, session_id or call.session_id
        if user_id is None or session_id is None:
            raise RequestError("answer needs user_id and session_id, or a PendingCall, which has both")
        turns = self._open_turns()
        key = checked_key(self.app_name, user_id, session_id)
        invocation_id, event_id, traceparent = new_invocation_id(), new_event_id(), callers_traceparent()

        async def build() -> p.StartTurn:
            message = p.ListPending(app=key.app, user=key.user, session=key.session, with_open=True)
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

    def _start_message(
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
        if invocation_id is not None:
            checked_id("invocation id", invocation_id)
        return p.StartTurn(
            key=checked_key(self.app_name, user_id, session_id),
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

    def _start_plan(self, message: p.StartTurn, plan: FlowPlan, on_leave: OnLeave) -> Turn:
        name = plan_name(plan, (message.key, message.invocation_id))
        # Turns that answer this one, or are attached to it, give typed results as well.
        self._types.add(name, plan.results)
        return self._start(msgspec.structs.replace(message, flow=name), plan, on_leave)

    def _start(self, message: p.StartTurn, plan: FlowPlan | None = None, on_leave: OnLeave = "cancel") -> Turn:
        turns = self._open_turns()
        state = TurnState(message.key, message.invocation_id, is_answer=has_function_responses(message.content))
        state.has_fingerprint = bool(message.fingerprint)
        turn = self._turn(turns, state, on_leave)
        turns.start_soon(state, message, plan)
        return turn

    def _turn(self, turns: TurnClient, state: TurnState, on_leave: OnLeave, *, is_attached: bool = False) -> Turn:
        cancels_on_leave = checked_choice("on_leave", on_leave, ("cancel", "continue")) == "cancel"
        return Turn(turns, state, self._types, cancels_on_leave=cancels_on_leave, answer=self.answer, is_attached=is_attached)

    def _follow_session(self, key: SessionKey, after_seq: int) -> Turn:
        """All events of a session, as if they were of one turn that does not end."""
        turns = self._open_turns()
        state = TurnState(key, WHOLE_SESSION, after_seq=after_seq, keeps=False)
        turns.attach_soon(state, after_seq)
        return self._turn(turns, state, "continue", is_attached=True)

    def _open_turns(self) -> TurnClient:
        self._client.check_process()
        if self._turns is None:
            raise self._client.not_open()
        return self._turns

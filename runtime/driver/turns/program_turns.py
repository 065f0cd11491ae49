"""The turns of a program: how its Runtime starts them and joins them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from actors.layers.flows.definitions import FlowPlan, ResultType
from actors.layers.listing.messages import ListPending
from actors.layers.retries import RetryTurn
from actors.messages import protocol as p
from actors.messages.event import new_event_id, new_invocation_id
from actors.messages.json_types import JsonMapping
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.messages.session import SessionKey
from actors.rules.checks.ids import checked_id, checked_key, checked_known_id, checked_known_key
from runtime.driver.arguments import checked_choice
from runtime.driver.engine_client import EngineClient
from runtime.driver.flows import plan_name
from runtime.driver.run_options import RunOptions, run_config_of
from runtime.driver.turns.answers import Answers, to_message
from runtime.driver.turns.client import TurnClient
from runtime.driver.turns.editing import Start, beside, replacing
from runtime.driver.turns.state import TurnState
from runtime.driver.turns.turn import OnLeave, Turn
from runtime.driver.user_message import has_function_responses, to_content, to_state
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

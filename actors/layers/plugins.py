"""The hooks of plugins around a turn: on the user's message, when the turn begins, and when it has come to its end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from actors.behaviours.lifecycle import as_content, first_result, log_failure, tell_of_failure
from actors.definitions.agents.callbacks import hooks
from actors.definitions.tools.context import Actions, CallbackContext
from actors.errors import InvalidMessageError, PluginFailedError, RaygroveError, SessionNotFoundError
from actors.errors.tracebacks import foreign_traceback
from actors.errors.user_code import code_of, error_text, is_cancellation
from actors.interfaces.access import ArtifactAccess, LogAccess, MemoryAccess
from actors.interfaces.telemetry import RunFacts, in_run
from actors.layers.memory import UserMemory
from actors.messages import protocol as p
from actors.messages.codec import decode
from actors.messages.config import RunConfig
from actors.messages.content import Content
from actors.messages.event import NO_ACTIONS, Event, decode_event
from actors.messages.json_types import JsonMapping, JsonObject
from actors.messages.session import SessionKey, TurnKey
from actors.rules.checks.user_message import checked
from actors.rules.checks.values import stored_delta
from actors.rules.failures import error_of
from actors.runner.environment import RunnerEnvironment
from actors.runner.running_turn import RunningTurn
from actors.runner.versions import TurnHooks

logger = logging.getLogger(__name__)


_HOOKS = ("on_user_message_callback", "before_run_callback", "after_run_callback", "on_run_error_callback")
"""The hooks that the Runner calls."""


class _Asked(NamedTuple):
    """The facts of a turn that its hooks get."""

    turn: TurnKey
    agent: str
    content: Content
    config: RunConfig


def _asked(turn: RunningTurn) -> _Asked:
    return _Asked(turn.key, turn.agent, turn.message.content, turn.config)


class PluginHooks(TurnHooks):
    """Calls the hooks of the deployment's plugins, in the Runner.

    Args:
        environment: the plugins, and what their hooks may use: state, artifacts and memory.
    """

    def __init__(self, environment: RunnerEnvironment) -> None:
        super().__init__(environment)
        self._hooks = {name: hooks(environment.plugins, name) for name in _HOOKS}
        self._session = environment.session
        self._artifacts = environment.artifacts
        self.has_message_hooks = bool(self._hooks["on_user_message_callback"])
        self.has_begin_hooks = bool(self._hooks["before_run_callback"])
        self.has_end_hooks = bool(self._hooks["after_run_callback"])

    async def on_user_message(self, turn: TurnKey, agent: str, content: Content, message: p.StartTurn) -> tuple[Content, Actions]:
        """The message as the plugins leave it, and the actions that they took.

        Raises:
            InvalidMessageError: what they made of it is no message, or has other function responses.
            PluginFailedError: one of them raised.
        """
        state = {**await self._state(turn[0]), **message.state_delta}
        asked = _Asked(turn, agent, content, message.config)
        try:
            replaced, actions = await self._call("on_user_message_callback", asked, state, content)
        except PluginFailedError as error:
            await self._tell_of_failure(asked, error)
            raise
        if replaced is None:
            return content, actions
        left = checked(replaced)
        if list(left.function_responses()) != list(content.function_responses()):
            raise InvalidMessageError("a plugin must leave the function responses of a message as they are")
        return left, actions

    async def before_run(self, turn: RunningTurn) -> Event | None:
        """The event that the beginning of a turn leaves in the log, if any; one with content answers the message.

        Raises:
            PluginFailedError: a hook raised.
        """
        # A turn that was recovered comes without its state.
        state = decode(turn.state, dict) if turn.state else await self._state(turn.ref.key)
        content, actions = await self._call("before_run_callback", _asked(turn), state)
        if content is None and actions.freeze() == NO_ACTIONS:
            return None
        return Event(content=content, actions=actions.freeze())

    async def after_run(self, turn: RunningTurn) -> Event | None:
        """The event that the end of a turn leaves in the log, if any. Raises PluginFailedError like `before_run`."""
        state = await self._state(turn.ref.key)
        _, actions = await self._call("after_run_callback", _asked(turn), state)
        return Event(actions=actions.freeze()) if actions.freeze() != NO_ACTIONS else None

    async def run_failed(self, turn: RunningTurn, outcome: p.Failed) -> None:
        """Tell the plugins that a turn has failed."""
        if self._hooks["on_run_error_callback"]:
            await self._tell_of_failure(_asked(turn), error_of(outcome))

    async def _tell_of_failure(self, asked: _Asked, error: RaygroveError) -> None:
        found = self._hooks["on_run_error_callback"]
        if found:
            context = self._context(asked, await self._state(asked.turn[0]), Actions())
            with in_run(_facts(asked)):
                await tell_of_failure(found, context, error)

    async def _state(self, key: SessionKey) -> JsonObject:
        """The session's state; empty when the session is still to be created."""
        with suppress(SessionNotFoundError):
            return decode((await self._session.ask(p.Fetch(key=key, state_only=True))).state, dict)
        return {}

    async def _events(self, key: SessionKey) -> Sequence[Event]:
        """The session's events; none when the session is still to be created."""
        events: list[Event] = []
        with suppress(SessionNotFoundError):
            fetched = await self._session.ask(p.Fetch(key=key))
            events += [decode_event(stored.raw, stored.seq) for stored in fetched.events]
            while fetched.more:
                page = p.Fetch(key=key, after_seq=fetched.events[-1].seq, generation=fetched.generation)
                fetched = await self._session.ask(page)
                events += [decode_event(stored.raw, stored.seq) for stored in fetched.events]
        return events

    async def _call(self, hook: str, asked: _Asked, state: JsonMapping, *args: Content) -> tuple[Content | None, Actions]:
        actions = Actions()
        context = self._context(asked, state, actions)
        try:
            with in_run(_facts(asked)):
                result = await first_result(self._hooks[hook], context, *args)
            content = as_content(result) if result is not None and hook != "after_run_callback" else None
            actions.state_delta = stored_delta(actions.state_delta)
        except BaseException as error:
            # A plugin is the user's code: whatever it raises, this turn fails with it and the Runner goes on.
            if is_cancellation(error):
                raise
            log_failure(logger, logging.ERROR, f"plugin hook {hook}", context, error, foreign_traceback(error))
            raise PluginFailedError(hook, code_of(error), error_text(error)) from error
        return content, actions

    def _context(self, asked: _Asked, state: JsonMapping, actions: Actions) -> CallbackContext:
        key, invocation_id = asked.turn
        memory: Any = UserMemory(self._session, key)
        return CallbackContext(
            artifacts=ArtifactAccess(self._artifacts, key),
            actions=actions,
            agent_name=asked.agent,
            invocation_id=invocation_id,
            log=LogAccess(key, partial(self._events, key)),
            branch=None,
            run_config=asked.config,
            user_content=asked.content,
            state=state,
            reach=lambda kind: memory if kind is MemoryAccess else None,
        )


def _facts(asked: _Asked) -> RunFacts:
    key, invocation_id = asked.turn
    return RunFacts(asked.agent, key.user, key.session, invocation_id, key.app)

"""The hooks of plugins around a turn: on the user's message, when the turn begins, and when it has come to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from actors.behaviours.callbacks import as_content, first_result
from actors.definitions.agents.plugin import Plugin, hooks
from actors.definitions.tools.context import Actions, CallbackContext
from actors.errors import InvalidMessageError, PluginFailedError, SessionNotFoundError
from actors.errors.user_code import code_of, error_text, is_cancellation
from actors.interfaces.stores import ArtifactStore
from actors.messages import protocol as p
from actors.messages.codec import decode, plain
from actors.messages.content import Content
from actors.messages.event import NO_ACTIONS, Event
from actors.messages.session import SessionKey
from actors.refs.access import SessionArtifacts, UserMemory
from actors.refs.session import SessionRef
from actors.rules.checks import user_message as messages


class PluginHooks:
    """Calls them, in the Runner.

    Args:
        plugins: the deployment's.
        session: the Session actor, for the state that hooks read.
        artifacts: the store that they may use.

    Attributes:
        on_message, at_end: there are such hooks.
    """

    def __init__(self, plugins: Sequence[Plugin], session: SessionRef, artifacts: ArtifactStore) -> None:
        self._plugins = plugins
        self._session = session
        self._artifacts = artifacts
        self.on_message = bool(hooks(plugins, "on_user_message_callback"))
        self.at_end = bool(hooks(plugins, "after_run_callback"))

    async def heard(
        self, key: SessionKey, invocation_id: str, agent: str, content: Content, state_delta: Mapping[str, Any]
    ) -> tuple[Content, Actions]:
        """The message as plugins want it, and what they have done besides.

        Raises:
            InvalidMessageError: what they made of it is no message.
            PluginFailedError: one of them raised.
        """
        if not self.on_message:
            return content, Actions()
        state = {**await self._state(key), **state_delta}
        given, actions = await self._call("on_user_message_callback", key, invocation_id, agent, content, state, content)
        if given is None:
            return content, actions
        heard = messages.checked(given)
        if list(heard.function_responses()) != list(content.function_responses()):
            raise InvalidMessageError("a plugin must leave the function responses of a message as they are")
        return heard, actions

    async def before(self, turn: p.TurnRef, agent: str, content: Content, state: bytes) -> Event | None:
        """What the beginning of a turn leaves in the log, if anything; an event with content is all of the turn."""
        if not hooks(self._plugins, "before_run_callback"):
            return None
        known = decode(state, dict)
        given, actions = await self._call("before_run_callback", turn.key, turn.invocation_id, agent, content, known)
        if given is None and actions.freeze() == NO_ACTIONS:
            return None
        return Event(content=given, actions=actions.freeze())

    async def after(self, turn: p.TurnRef, agent: str, content: Content) -> Event | None:
        """What the end of a turn leaves in the log, if anything."""
        if not self.at_end:
            return None
        state = await self._state(turn.key)
        _, actions = await self._call("after_run_callback", turn.key, turn.invocation_id, agent, content, state)
        return Event(actions=actions.freeze()) if actions.freeze() != NO_ACTIONS else None

    async def _state(self, key: SessionKey) -> dict[str, Any]:
        """The session's state; that of a session which is still to be made is empty."""
        with suppress(SessionNotFoundError):
            return decode((await self._session.fetch(p.Fetch(key=key, state_only=True))).state, dict)
        return {}

    async def _call(
        self, hook: str, key: SessionKey, invocation_id: str, agent: str, content: Content, state: dict[str, Any], *args: Any
    ) -> tuple[Content | None, Actions]:
        actions = Actions()
        context = CallbackContext(
            artifacts=SessionArtifacts(self._artifacts, key),
            memory=UserMemory(self._session, key),
            actions=actions,
            agent_name=agent,
            invocation_id=invocation_id,
            user_id=key.user,
            session_id=key.session,
            user_content=content,
            state=state,
        )
        try:
            given = await first_result(hooks(self._plugins, hook), context, *args)
            said = as_content(given) if given is not None and hook != "after_run_callback" else None
            actions.state_delta = plain(actions.state_delta)
        except BaseException as error:
            # A plugin is the user's code: whatever it raises, this turn fails with it and the Runner goes on.
            if is_cancellation(error):
                raise
            raise PluginFailedError(hook, code_of(error), error_text(error)) from error
        return said, actions

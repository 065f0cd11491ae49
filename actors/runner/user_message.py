"""What becomes of a user's message before its turn is opened: who could take it is looked up, and its data moved away."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from actors.definitions.tools.context import Actions
from actors.errors import ModelConfigurationError
from actors.interfaces.stores import ArtifactStore
from actors.interfaces.transport import Directory
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.content import Content
from actors.messages.event import USER, Event, EventActions, new_event_id, now_s
from actors.messages.flow import CONTROLLER, FlowMark
from actors.messages.limits import Limits
from actors.messages.topology import Topology
from actors.refs.session import SessionRef
from actors.rules.checks import state
from actors.rules.checks import user_message as messages
from actors.rules.checks.sizes import check_event
from actors.rules.checks.state import without_temp
from actors.rules.routing.selection import select_agent
from actors.runner.plugin_hooks import PluginHooks


class PreparedMessage(NamedTuple):
    """A message that can be stored: what was found for it, what is left of it, and what plugins have done besides."""

    found: p.TurnFound
    content: Content
    actions: Actions


class UserMessages:
    """Prepares messages, in the Runner.

    Args:
        session: the Session actor.
        directory: which agents cannot run here.
        artifacts: where data goes.
        hooks: the plugins', which may want to know the agent.
        limits: how large an event may be.
    """

    def __init__(
        self, session: SessionRef, directory: Directory, artifacts: ArtifactStore, hooks: PluginHooks, limits: Limits
    ) -> None:
        self._session = session
        self._directory = directory
        self._artifacts = artifacts
        self._hooks = hooks
        self._limits = limits

    async def prepare(self, topology: Topology, message: p.StartTurn, content: Content) -> PreparedMessage:
        """Do all that is done before the message is stored. For a turn that is there already, nothing is.

        Raises:
            UnknownFunctionCallError, SessionNotFoundError, ModelConfigurationError: it cannot be taken.
            InvalidMessageError, PluginFailedError: what plugins have made of it.
            TooLargeError, ArtifactError: it cannot be stored.
        """
        found = await self._look_ahead(message, content)
        agent = agent_for(topology, message, found.authors, found.caller)
        if agent in self._directory.obstacles:
            raise ModelConfigurationError(*self._directory.obstacles[agent])
        if found.is_there:
            return PreparedMessage(found, content, Actions())
        invocation_id = found.invocation_id or message.invocation_id
        # Plugins hear the message as it was sent, with its data.
        content, actions = await self._hooks.heard(message.key, invocation_id, agent, content, message.state_delta)
        return PreparedMessage(found, await self._without_blobs(message, content, invocation_id), actions)

    async def _look_ahead(self, message: p.StartTurn, content: Content) -> p.TurnFound:
        """What must be known before the message is stored; for a plain one, which can only succeed, nothing."""
        answers = messages.answers(content)
        has_data = saves(message, content)
        if not (answers or has_data or self._directory.obstacles or self._hooks.on_message):
            return p.TurnFound(authors=())
        repeated = message.invocation_id if message.repeatable and has_data else ""
        return await self._session.find_turn(
            p.FindTurn(key=message.key, call_ids=answers, invocation_id=repeated, auto_create=message.auto_create)
        )

    async def _without_blobs(self, message: p.StartTurn, content: Content, invocation_id: str) -> Content:
        """The message with its inline data moved to the artifact store, if that is wanted."""
        if not saves(message, content):
            return content
        without = messages.without_blobs(content, invocation_id)
        # Before anything is saved for a message that is refused all the same.
        check_event(USER, len(encode(without)), self._limits)
        state.check(message.state_delta)
        for index, part in enumerate(content.parts):
            if part.inline_data is not None:
                filename = messages.artifact_name(invocation_id, index)
                await asyncio.to_thread(self._artifacts.save, message.key, filename, part)
        return without


def agent_for(topology: Topology, message: p.StartTurn, authors: tuple[str, ...], caller: str) -> str:
    """Who takes a message: see select_agent. One that begins a flow which is no part of the tree is the controller's."""
    return CONTROLLER if message.flow else select_agent(topology, authors, caller)


def saves(message: p.StartTurn, content: Content) -> bool:
    """True when there is data in the message that goes to the artifact store."""
    return message.config.save_input_blobs_as_artifacts and messages.has_blobs(content)


def user_event(message: p.StartTurn, content: Content, invocation_id: str, artifact_delta: dict[str, int]) -> Event:
    """The event of a message. Who asks again gives the same id again."""
    return Event(
        id=message.event_id or new_event_id(),
        invocation_id=invocation_id,
        author=USER,
        timestamp=now_s(),
        content=content,
        custom_metadata=message.config.custom_metadata,
        actions=EventActions(state_delta=without_temp(message.state_delta), artifact_delta=artifact_delta),
        # Whoever goes on with the turn after a loss finds there that it is one of a flow, and of which.
        flow=FlowMark(run=message.flow) if message.flow else None,
    )

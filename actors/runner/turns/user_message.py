"""What the Runner does with a user's message before the turn is opened: plugins see it, and its data is saved."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from actors.definitions.tools.context import Actions
from actors.errors import ArtifactError, InputSchemaError, InvalidMessageError, ModelConfigurationError
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.content import Content, Part
from actors.messages.event import ADDRESSED, FINGERPRINT, NO_ACTIONS, USER, Event, EventActions, new_event_id, now_s, words_id
from actors.messages.flow import CONTROLLER, FlowMark
from actors.messages.json_types import JsonObject, StateDelta
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.rules.checks import state
from actors.rules.checks import user_message as messages
from actors.rules.checks.answer_form import misfit, shapeless
from actors.rules.checks.sizes import check_event
from actors.rules.checks.state import without_temp
from actors.runner.dispatch.versions import TurnVersions
from actors.runner.environment import RunnerEnvironment


class PreparedMessage(msgspec.Struct, frozen=True):
    """A message that can be stored.

    Attributes:
        found: what the Session actor knows of its turn.
        content: the message as plugins leave it, its data replaced by where it is saved.
        answers: the ids of the calls that it answers.
        actions: the actions that plugins took; None: no plugin has seen it.
    """

    found: p.TurnFound
    content: Content
    answers: tuple[str, ...] = ()
    actions: Actions | None = None


NOTHING_FOUND = p.TurnFound(authors=())
"""What is known of the turn of a plain message: nothing needs to be."""


class UserMessages:
    """Prepares users' messages.

    Args:
        versions: which agent would get the message, which agents cannot run, and the plugins' hooks on messages.
    """

    def __init__(self, environment: RunnerEnvironment, versions: TurnVersions) -> None:
        self._session = environment.session
        self._artifacts = environment.artifacts
        self._store_timeout_s = environment.store_timeout_s
        self._limits = environment.limits
        self._versions = versions

    async def prepare(self, message: p.StartTurn, content: Content) -> PreparedMessage:
        """Do everything that comes before the message is stored; nothing when its turn is there already.

        Raises:
            UnknownFunctionCallError, SessionNotFoundError, ModelConfigurationError: no agent can take the message.
            InvalidMessageError, PluginFailedError: what plugins made of it.
            TooLargeError, ArtifactError: it cannot be stored.
        """
        answers = messages.answers(content)
        if answers or self._needs_agent() or saves(message, content) or self._topology.root.input_schema is not None:
            found = await self._look_ahead(message, content, answers)
        else:
            found = NOTHING_FOUND
        if found.is_there:
            return PreparedMessage(found, content, answers)
        agent = self._expected_agent(message, found)
        obstacles = self._versions.current.directory.obstacles
        if agent in obstacles:
            raise ModelConfigurationError(*obstacles[agent])
        invocation_id = found.invocation_id or message.invocation_id
        actions = None
        hooks = self._versions.current.hooks
        if hooks.has_message_hooks and (message.due is None or message.due.is_new):
            # Plugins see the message as it was sent, with its data. They have seen one that has waited.
            content, actions = await hooks.on_user_message((message.key, invocation_id), agent, content, message)
        if (wrong := misfit(content, found.questions)) is not None:
            raise InvalidMessageError(wrong)
        self._check_input(message, found, content)
        content = await self._without_blobs(message, content, invocation_id)
        return PreparedMessage(found, content, answers, actions)

    def _check_input(self, message: p.StartTurn, found: p.TurnFound, content: Content) -> None:
        """Check what begins a graph that is the root. Raises InputSchemaError."""
        root = self._topology.root
        if root.input_schema is None or found.caller or message.flow or message.config.agent not in ("", root.name):
            return
        if (wrong := shapeless(content.text, root.input_schema)) is not None:
            raise InputSchemaError(root.name, wrong)

    async def _look_ahead(self, message: p.StartTurn, content: Content, answers: tuple[str, ...]) -> p.TurnFound:
        """Look up what must be known before the message is stored."""
        may_answer_task = self.may_answer_task(message, answers)
        repeated = message.invocation_id if message.repeatable and (saves(message, content) or may_answer_task) else ""
        return await self._session.ask(
            p.FindTurn(
                key=message.key,
                call_ids=answers,
                invocation_id=repeated,
                fingerprint=message.fingerprint,
                auto_create=message.auto_create,
                may_answer_task=may_answer_task,
                event_id=words_id(message.invocation_id) if self._may_join(message, answers) and message.repeatable else "",
                wants_questions=self._topology.has_graphs,
            )
        )

    def may_answer_task(self, message: p.StartTurn, answers: Sequence[str]) -> bool:
        """True for words for which an agent may wait that works on a task with the user."""
        is_said = message.due is None or (message.due.is_message and not message.due.is_sent)
        return self._versions.has_tasks and not answers and not message.flow and is_said

    def event_id(self, message: p.StartTurn, answers: Sequence[str]) -> str:
        """The id for the event of a message, the same in a retry; "" for a new one."""
        return words_id(message.invocation_id) if self._may_join(message, answers) else message.event_id

    def _may_join(self, message: p.StartTurn, answers: Sequence[str]) -> bool:
        """True for words that another turn than their own may have: its log says so."""
        return self.may_answer_task(message, answers) or message.config.on_concurrent_turn == "steer"

    @property
    def _topology(self) -> Topology:
        return self._versions.current.routing.topology

    def _needs_agent(self) -> bool:
        """Some agents cannot run here, or plugins want to know the agent of a message."""
        version = self._versions.current
        return bool(version.directory.obstacles) or version.hooks.has_message_hooks

    def _expected_agent(self, message: p.StartTurn, found: p.TurnFound) -> str:
        """The agent that would get the message now; "" if the agent does not matter yet.

        Other turns may run before this one and change the answer, so the agent is selected when the turn is open.
        """
        if not self._needs_agent():
            return ""
        routing, addressed = self._versions.current.routing, message.config.agent
        return CONTROLLER if message.flow else routing.select(found.authors, found.caller, addressed)

    async def _without_blobs(self, message: p.StartTurn, content: Content, invocation_id: str) -> Content:
        """The message with its inline data moved to the artifact store, if the RunConfig says so."""
        if not saves(message, content):
            return content
        without = messages.without_blobs(content, invocation_id)
        # Check first, so that a refused message leaves no artifacts behind.
        check_event(USER, len(encode(without)), self._limits)
        state.check(message.state_delta)
        for index, part in enumerate(content.parts):
            if part.inline_data is not None:
                filename = messages.artifact_name(invocation_id, index)
                await self._save(message.key, filename, part)
        return without

    async def _save(self, key: SessionKey, filename: str, part: Part) -> None:
        """Save an artifact. Raises ArtifactError, also when the store does not answer: it may keep no thread from others."""
        try:
            async with asyncio.timeout(self._store_timeout_s):
                await asyncio.to_thread(self._artifacts.save, key, filename, part)
        except TimeoutError as error:
            raise ArtifactError(filename, f"the store has not answered within {self._store_timeout_s:g} s") from error


def saves(message: p.StartTurn, content: Content) -> bool:
    """True when there is data in the message that goes to the artifact store."""
    return message.config.save_input_blobs_as_artifacts and messages.has_blobs(content)


def user_event(message: p.StartTurn, content: Content, event_id: str, invocation_id: str, actions: Actions | None) -> Event:
    """The event of a message."""
    return Event(
        id=event_id or new_event_id(),
        invocation_id=invocation_id,
        author=USER,
        timestamp=now_s(),
        content=content,
        custom_metadata=_metadata(message),
        actions=_actions(message.state_delta, actions),
        # A Runner that resumes the turn learns from the mark that it carries out a flow, and which.
        flow=FlowMark(run=message.flow) if message.flow else None,
    )


def _actions(state_delta: StateDelta, actions: Actions | None) -> EventActions:
    if actions is None:
        return EventActions(state_delta=without_temp(state_delta)) if state_delta else NO_ACTIONS
    return EventActions(state_delta=without_temp(state_delta), artifact_delta=actions.artifact_delta)


def _metadata(message: p.StartTurn) -> JsonObject | None:
    given = message.config.custom_metadata
    if message.config.agent:
        given = {**(given or {}), ADDRESSED: message.config.agent}
    return {**(given or {}), FINGERPRINT: message.fingerprint} if message.fingerprint else given

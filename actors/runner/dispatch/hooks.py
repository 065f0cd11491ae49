"""The seam around turns: what a feature does with a message before its turn is open, when the turn begins, and at its end."""

from __future__ import annotations

from collections.abc import Callable

from actors.definitions.tools.context import Actions
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.session import TurnKey
from actors.runner.environment import RunnerEnvironment
from actors.runner.running.running_turn import RunningTurn


class TurnHooks:
    """What is done around the turns of one version of the tree; here nothing.

    Attributes:
        has_message_hooks: it wants to see users' messages, and which agent is to get them.
        has_begin_hooks: it does something when a turn begins.
        has_end_hooks: it does something when a turn has finished.
    """

    has_message_hooks = has_begin_hooks = has_end_hooks = False

    def __init__(self, environment: RunnerEnvironment) -> None:
        pass

    async def on_user_message(self, turn: TurnKey, agent: str, content: Content, message: p.StartTurn) -> tuple[Content, Actions]:
        """The message as it is to be, and actions that were taken. What it raises refuses the message."""
        return content, Actions()

    async def before_run(self, turn: RunningTurn) -> Event | None:
        """The event that the beginning of a turn leaves in the log, if any; one with content answers the message.

        Raises:
            PluginFailedError: the turn fails.
        """
        return None

    async def after_run(self, turn: RunningTurn) -> Event | None:
        """The event that the end of a turn leaves in the log, if any. Raises PluginFailedError like `before_run`."""
        return None

    async def run_failed(self, turn: RunningTurn, outcome: p.Failed) -> None:
        """Learn that a turn has failed."""


MakeHooks = Callable[[RunnerEnvironment], TurnHooks]
"""Makes the hooks of a version."""

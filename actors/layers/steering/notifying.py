"""Messages that wait for a turn: the agents of the turn that runs are notified of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from actors.errors import ActorLostError
from actors.interfaces.transport import Link
from actors.layers.steering.messages import FindReader
from actors.messages import protocol as p
from actors.messages.session import TurnKey
from actors.refs import AgentRef
from actors.rules.routing.branches import tool_root
from actors.runner.recovery import OPENING_S
from actors.runner.running_turn import Run, RunningTurn, numbers
from actors.runner.service import RunnerParts, RunnerService

NOTIFY_S = 1.0
"""An actor that takes longer reads the message when it listens again."""


class MessageNotifier(RunnerService):
    """Notifies agents. See `StartingHook`."""

    def __init__(self, parts: RunnerParts) -> None:
        self._session = parts.session
        self._table = parts.table
        parts.starter.hooks.append(self)

    async def before(self, message: p.StartTurn, event_id: str) -> None:
        """Notify agents again of a message that waits, and now asks for its own turn: a Runner may have been lost since."""
        if message.due is not None and message.due.is_message and message.config.on_concurrent_turn == "steer":
            found = await self._session.ask(FindReader(key=message.key, event_id=event_id))
            if found.invocation_id:
                await self.left(message, (message.key, found.invocation_id))

    async def left(self, message: p.StartTurn, turn: TurnKey) -> None:
        """Notify the agents of the turn that may read the message."""
        # Its agents are not known before the reply which opens the turn has come.
        await self._table.opened(turn, OPENING_S)
        if (running := self._table.get(turn)) is not None:
            await _notify(running, message.config.agent if message.due is not None and message.due.is_sent else "")


async def _notify(turn: RunningTurn, agent: str) -> None:
    """Notify the agents that run in a turn, and those that will. One that is asked as a tool works for its caller only.

    Args:
        agent: to which the message was sent: it concerns no other. "": any may read it.
    """
    turn.has_messages = True
    by_link: dict[Link, list[Run]] = {}
    for run in turn.runs.all():
        if run.link is None or tool_root(run.branch) is not None:
            continue
        if agent in ("", run.agent):
            by_link.setdefault(run.link, []).append(run)
    await asyncio.gather(*(_notify_at(turn, link, runs) for link, runs in by_link.items()))


async def _notify_at(turn: RunningTurn, link: Link, runs: Sequence[Run]) -> None:
    with suppress(ActorLostError, TimeoutError):
        async with asyncio.timeout(NOTIFY_S):
            await AgentRef(link).ask(p.NotifyRuns(turn=turn.ref, runs=numbers(runs)))

"""Messages to a session whose turn runs: they are left at the Session actor, and the agents of the turn are notified."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from actors.errors import ActorLostError
from actors.interfaces.transport import Link
from actors.layers.steering.messages import LeaveMessage
from actors.messages import protocol as p
from actors.refs.agent import AgentRef
from actors.rules.routing.branches import tool_root
from actors.runner.running.running_turn import RunningTurn
from actors.runner.running.runs import Run, numbers
from actors.runner.service import RunnerParts, RunnerService
from actors.runner.turns.recovery import OPENING_S
from actors.runner.turns.start import Opening

NOTIFY_S = 1.0
"""An actor that takes longer reads the message when it listens again."""


class MessageTaker(RunnerService):
    """Takes messages with on_concurrent_turn="steer" while a turn of their session runs."""

    def __init__(self, parts: RunnerParts) -> None:
        self._session = parts.session
        self._table = parts.table
        parts.starter.takers.append(self.take)

    async def take(self, opening: Opening) -> p.TurnStarted | None:
        """Leave a message for the turn that runs, and tell its agents; None where it begins a turn.

        A message that waits already asks for its own turn, which waits in line. The agents are notified again: their Runner may
        have been lost since.
        """
        message = opening.message
        waits = message.due is not None and message.due.is_message
        is_said = waits or message.due is None
        if message.config.on_concurrent_turn != "steer" or opening.prepared.answers or message.flow or not is_said:
            return None
        asked = LeaveMessage(
            key=message.key,
            event=opening.raw,
            config=message.config,
            state_delta=message.state_delta,
            fingerprint=message.fingerprint,
            traceparent=message.traceparent,
            waits=waits,
        )
        left = await self._session.ask(asked)
        if not left.invocation_id:
            return None
        key = (message.key, left.invocation_id)
        # Its agents are not known before the reply which opens the turn has come.
        await self._table.opened(key, OPENING_S)
        turn = self._table.get(key)
        if turn is not None:
            await _notify(turn, message.config.agent if message.due is not None and message.due.is_sent else "")
        if waits:
            return None
        agent = turn.agent if turn is not None else ""
        return p.TurnStarted(invocation_id=left.invocation_id, agent=agent, seq=left.after_seq, message=opening.event.id)


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

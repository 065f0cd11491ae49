"""Events that the Runner itself adds to the log of a turn."""

from __future__ import annotations

import logging

import msgspec

from actors.errors import PluginFailedError, RaygroveError
from actors.errors.tracebacks import foreign_traceback
from actors.messages import protocol as p
from actors.messages.codec import encode_event
from actors.messages.event import Event, new_event_id, now_s
from actors.messages.graph import NodeInfo, NodeTask
from actors.refs import SessionRef
from actors.rules.checks.state import only_temp, without_temp
from actors.rules.recovery.failures import failure, failure_event
from actors.runner.running.running_turn import RunningTurn

logger = logging.getLogger(__name__)


class RunnerEvents:
    """Appends events in the name of an agent."""

    def __init__(self, session: SessionRef) -> None:
        self._session = session

    async def append(self, turn: RunningTurn, author: str, event: Event) -> None:
        """Store an event that was made in the Runner. Raises FencedError, RequestError, StoreError."""
        changed = event.actions.state_delta
        complete = msgspec.structs.replace(
            event,
            id=new_event_id(),
            invocation_id=turn.ref.invocation_id,
            author=author,
            timestamp=now_s(),
            actions=msgspec.structs.replace(event.actions, state_delta=without_temp(changed)),
        )
        await self._session.ask(p.Append(turn=turn.ref, events=[encode_event(complete)], temp=only_temp(changed)))

    async def fail(
        self, turn: RunningTurn, agent: str, error: RaygroveError, branch: str | None = None, node: NodeTask | None = None
    ) -> p.Failed:
        """Store the event of a failure that the agent cannot store itself. Raises FencedError, StoreError.

        Args:
            node: the agent ran as this node of a graph, which is the author of the event then.
        """
        outcome = failed(agent, error)
        event = failure_event(outcome, branch)
        if node is not None:
            event = msgspec.structs.replace(event, node_info=NodeInfo(path=node.path))
        await self.append(turn, node.graph or agent if node is not None else agent, event)
        if not isinstance(error, PluginFailedError):
            # A plugin's failure is in the log already, with its traceback.
            key, invocation_id = turn.key
            where = (invocation_id, key.session, key.user)
            logger.error("agent %r failed in turn %s of session %r of user %r: %s", agent, *where, error)
        return outcome


def failed(agent: str, error: RaygroveError) -> p.Failed:
    """The outcome of a run that ended with one of this project's own errors."""
    return msgspec.structs.replace(failure(error, foreign_traceback(error)), agent=agent)

"""Ending what runs or waits in a session that has lost events: see `actors.session.log.reverts`."""

from __future__ import annotations

from actors.messages.protocol.outcomes import Failed
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.session.log.session_log import SessionLog
from actors.session.subscribers.subscriptions import Subscriptions


class TurnLosses:
    """Tells drivers that a session has lost events.

    Args:
        subscriptions: which drivers follow which turns.
    """

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions

    def end_all(self, log: SessionLog, failed: Failed, error: Exception) -> bool:
        """End, in memory, the open turn of a session, the turns in line and the following of it. Returns whether any turn has.

        What agents still send for the turn is refused, as for any turn that has ended.
        """
        turn, waiters = log.turn, list(log.queue)
        for waiter in waiters:
            log.queue.remove(waiter, error)
            self._subscriptions.publish_end(log.key, waiter.invocation_id, failed)
        # The request that is opening a turn fails with its write, and ends the turn itself.
        if turn is not None and not log.is_opening:
            self._subscriptions.publish_end(log.key, turn.row.invocation_id, failed, turn.row.opened_seq)
            log.turn = None
            log.queue.start_next()
        self._subscriptions.forget_answers(log.key)
        self._subscriptions.publish_end(log.key, WHOLE_SESSION, failed)
        return turn is not None or bool(waiters)

"""Removing a session: the same when a user deletes one as when old ones are pruned."""

from __future__ import annotations

from actors.errors import SessionNotFoundError, name_and_args
from actors.interfaces.records import RemoveSession, Write
from actors.messages import protocol as p
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.messages.session import SessionKey
from actors.session.log.session_log import SessionLog
from actors.session.subscribers.subscriptions import Subscriptions
from actors.session.turns.parts import SessionParts


async def remove_session(parts: SessionParts, log: SessionLog, *also: Write) -> None:
    """Remove a session, with a turn that is lost, and end what follows it.

    Args:
        log: its queue is taken, and let go by the caller.
        also: what is stored in the same step.

    Raises:
        StoreError: nothing is removed.
    """
    turn = log.turn
    log.turn = None
    try:
        await parts.logs.commits.write(log, [RemoveSession(log.key), *also])
    except BaseException:
        log.turn = turn
        raise
    parts.logs.evict(log.key)
    log.turn = turn
    end_gone(parts.subscriptions, log)


def end_gone(subscriptions: Subscriptions, log: SessionLog) -> None:
    """End what follows a session that is not there any more."""
    for followed in (WHOLE_SESSION, log.open_id()):
        subscriptions.publish_end(log.key, followed, _gone(log.key))
    subscriptions.forget_answers(log.key)
    log.turn = None


def _gone(key: SessionKey) -> p.Failed:
    """The outcome with which the following of a deleted session ends."""
    error = SessionNotFoundError(key.app, key.user, key.session)
    code, args = name_and_args(error)
    return p.Failed(error_code=code, error_message=str(error), error_args=args)

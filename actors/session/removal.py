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
        SessionBusyError: background runs of it work. Nothing is removed.
        StoreError: nothing is removed.
    """
    turn, lost = log.turn, log.open_id()
    log.turn = None
    try:
        left = [write for hook in parts.removal_hooks for write in await hook(log.key)]
        await parts.logs.write(log, [RemoveSession(log.key), *left, *also])
    except BaseException:
        log.turn = turn
        raise
    parts.logs.evict(log.key)
    end_gone(parts.subscriptions, log.key, lost)


def end_gone(subscriptions: Subscriptions, key: SessionKey, lost: str) -> None:
    """End what follows a session that is not there any more, and its turn that was lost; "": it had none."""
    for followed in (WHOLE_SESSION, lost):
        subscriptions.publish_end(key, followed, _gone(key))
    subscriptions.forget_answers(key)


def _gone(key: SessionKey) -> p.Failed:
    """The outcome with which the following of a deleted session ends."""
    error = SessionNotFoundError(key.app, key.user, key.session)
    code, args = name_and_args(error)
    return p.Failed(error_code=code, error_message=str(error), error_args=args)

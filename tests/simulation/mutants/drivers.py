"""Defects in what drivers are told, and in what they do when the Session actor was lost."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec

from actors.messages import protocol as p
from actors.session.subscribers.outbox import Outbox
from actors.session.subscribers.subscriptions import Subscriptions
from runtime.driver.turns.subscriber import Subscriber


def polls_acknowledge_too_early() -> AbstractContextManager[object]:
    """News is dropped when it is sent, not when it is acknowledged."""
    poll: Any = Outbox.poll

    async def hasty(self: Outbox, ack: int) -> p.News:
        news: p.News = await poll(self, self._last.number)
        return news

    return mock.patch.object(Outbox, "poll", hasty)


def dropped_turns_are_not_told() -> AbstractContextManager[object]:
    """Those that follow a turn in line do not hear that it was dropped with its Runner."""

    def nothing(self: Subscriptions, key: Any, invocation_id: str) -> None:
        """Tell no subscriber."""

    return mock.patch.object(Subscriptions, "publish_dropped", nothing)


def joined_turns_are_not_sought() -> AbstractContextManager[object]:
    """A driver does not ask again for a turn that a restarted Session actor does not know."""

    async def never(self: Subscriber) -> None:
        """Nothing."""

    return mock.patch.object(Subscriber, "_seek", never)


def lost_subscriptions_are_not_renewed() -> AbstractContextManager[object]:
    """A driver does not subscribe again when the Session actor was lost."""

    async def never(self: Subscriber) -> None:
        """Nothing."""

    return mock.patch.object(Subscriber, "_subscribe_again", never)


def followers_begin_at_the_end_of_the_log() -> AbstractContextManager[object]:
    """A driver that follows a turn late gets none of the events before."""
    follow: Any = Outbox.follow

    def late(self: Outbox, turn: Any, after_seq: int, head_seq: int) -> None:
        follow(self, turn, max(after_seq, head_seq), head_seq)

    return mock.patch.object(Outbox, "follow", late)


def pauses_end_what_was_answered() -> AbstractContextManager[object]:
    """The end of the pause before an answer, when it comes late, ends the turn for the driver that answers."""
    feed: Any = Subscriber._feed

    def gullible(self: Subscriber, news: p.TurnNews) -> None:
        feed(self, msgspec.structs.replace(news, opened_seq=0))

    return mock.patch.object(Subscriber, "_feed", gullible)

"""Who is told what: drivers follow turns, and fetch their news by long polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.outcomes import AnyOutcome
from actors.messages.protocol.subscriptions import News, Poll
from actors.messages.session import SessionKey
from actors.session.subscribers.outbox import Outbox, Read, Where


class Subscriptions:
    """The subscribers of every turn, and their mailboxes.

    Args:
        read: reads a turn's events behind a place from the log, for subscribers that are late.
        clock: seconds that only go forward; by default those of the event loop.
    """

    def __init__(self, read: Read, clock: Callable[[], float] | None = None) -> None:
        self._read = read
        self._clock = clock
        self._mailboxes: dict[str, Outbox] = {}
        self._of_turn: dict[Where, set[str]] = {}

    @property
    def counts(self) -> dict[str, int]:
        """Figures by name."""
        return {"subscribers": len(self._mailboxes), "bytes_untold": sum(box.size for box in self._mailboxes.values())}

    def add(self, subscriber: str, key: SessionKey, invocation_id: str, after_seq: int, head_seq: int = 0) -> None:
        """Tell a subscriber of all that happens in a turn from now on, and first of what its log holds.

        Args:
            after_seq: the last place that the subscriber knows.
            head_seq: the last place that is on disk.
        """
        if subscriber:
            self._of_turn.setdefault((key, invocation_id), set()).add(subscriber)
            self._mailbox(subscriber).follow((key, invocation_id), after_seq, head_seq)

    def follows(self, subscriber: str, key: SessionKey, invocation_id: str) -> bool:
        """True when the subscriber is told of all that happens in the turn."""
        return subscriber in self._of_turn.get((key, invocation_id), ())

    def add_late(
        self, subscriber: str, key: SessionKey, invocation_id: str, after_seq: int, head_seq: int, outcome: AnyOutcome
    ) -> None:
        """Tell a subscriber of a turn that has ended."""
        mailbox = self._mailbox(subscriber)
        mailbox.follow((key, invocation_id), after_seq, head_seq)
        mailbox.end((key, invocation_id), outcome)

    def tell(self, key: SessionKey, invocation_id: str, events: Sequence[StoredEvent]) -> None:
        """Events, or pieces, have come in a turn."""
        where = (key, invocation_id)
        for subscriber in self._of_turn.get(where, ()):
            self._mailbox(subscriber).put(where, events)

    def tell_end(self, key: SessionKey, invocation_id: str, outcome: AnyOutcome) -> None:
        """A turn has ended; nobody follows it any more."""
        where = (key, invocation_id)
        for subscriber in self._of_turn.pop(where, ()):
            self._mailbox(subscriber).end(where, outcome)

    async def poll(self, message: Poll) -> News:
        """Give a subscriber its news, as soon as there is some. One that is not known is told so: it may follow turns already."""
        is_known = message.subscriber in self._mailboxes
        mailbox = self._mailbox(message.subscriber)
        if not is_known or message.mailbox not in ("", mailbox.id):
            return News(known=False, mailbox=mailbox.id)
        return await mailbox.poll(message.ack)

    def drop(self, subscriber: str) -> None:
        """Forget a subscriber."""
        mailbox = self._mailboxes.pop(subscriber, None)
        if mailbox is not None:
            mailbox.close()
        for subscribers in self._of_turn.values():
            subscribers.discard(subscriber)

    def close(self) -> None:
        """Forget everybody."""
        for subscriber in list(self._mailboxes):
            self.drop(subscriber)

    def _mailbox(self, subscriber: str) -> Outbox:
        mailbox = self._mailboxes.get(subscriber)
        if mailbox is None:
            for name in [name for name, box in self._mailboxes.items() if box.is_abandoned()]:
                self.drop(name)
            clock = self._clock or asyncio.get_running_loop().time
            mailbox = self._mailboxes[subscriber] = Outbox(clock, self._read)
        return mailbox

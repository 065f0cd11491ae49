"""Who is told what: drivers follow turns, and fetch their news by long polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from actors.hotlog import scan
from actors.mailbox import Mailbox
from actors.messages.event import USER
from actors.messages.protocol import AnyOutcome, News, Poll, StoredEvent
from actors.messages.session import SessionKey


class Followers:
    """The subscribers of every turn, and their mailboxes.

    Args:
        clock: seconds that only go forward; by default those of the event loop.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._mailboxes: dict[str, Mailbox] = {}
        self._of_turn: dict[tuple[SessionKey, str], set[str]] = {}

    def add(self, subscriber: str, key: SessionKey, invocation_id: str) -> None:
        """Tell a subscriber of all that happens in a turn from now on."""
        if subscriber:
            self._of_turn.setdefault((key, invocation_id), set()).add(subscriber)
            self._mailbox(subscriber)

    def follows(self, subscriber: str, key: SessionKey, invocation_id: str) -> bool:
        """True when the subscriber is told of all that happens in the turn."""
        return subscriber in self._of_turn.get((key, invocation_id), ())

    def tell(self, key: SessionKey, invocation_id: str, event: StoredEvent) -> None:
        """An event or a partial event has come in a turn."""
        for subscriber in self._of_turn.get((key, invocation_id), ()):
            self._mailbox(subscriber).put(key, invocation_id, event)

    def tell_end(self, key: SessionKey, invocation_id: str, outcome: AnyOutcome) -> None:
        """A turn has ended; nobody follows it any more."""
        for subscriber in self._of_turn.pop((key, invocation_id), ()):
            self._mailbox(subscriber).end(key, invocation_id, outcome)

    def replay(self, subscriber: str, key: SessionKey, invocation_id: str, events: Sequence[StoredEvent]) -> None:
        """Tell one subscriber what a turn's agents have said already."""
        for event in events:
            seen = scan(event.raw)
            if seen.invocation_id == invocation_id and seen.author != USER:
                self._mailbox(subscriber).put(key, invocation_id, event)

    def replay_end(self, subscriber: str, key: SessionKey, invocation_id: str, outcome: AnyOutcome) -> None:
        """Tell one subscriber how a turn has ended already."""
        self._mailbox(subscriber).end(key, invocation_id, outcome)

    async def poll(self, message: Poll) -> News:
        """Give a subscriber its news, as soon as there is some. One that is not known is told so: it may follow turns already."""
        if message.subscriber not in self._mailboxes:
            self._mailbox(message.subscriber)
            return News(known=False)
        return await self._mailbox(message.subscriber).poll(message.ack)

    def drop(self, subscriber: str) -> None:
        """Forget a subscriber."""
        self._mailboxes.pop(subscriber, None)
        for subscribers in self._of_turn.values():
            subscribers.discard(subscriber)

    def _mailbox(self, subscriber: str) -> Mailbox:
        mailbox = self._mailboxes.get(subscriber)
        if mailbox is None:
            for name in [name for name, box in self._mailboxes.items() if box.is_abandoned()]:
                self.drop(name)
            mailbox = self._mailboxes[subscriber] = Mailbox(self._clock or asyncio.get_running_loop().time)
        return mailbox

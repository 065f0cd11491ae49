"""The events of a session over all its turns, as they come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing

from actors.messages.event import Event
from actors.messages.protocol.base import StoredEvent
from runtime.driver.turns.turn import Turn


class SessionTail:
    """The events of a session from one on, and all that follow: `for event in tail` or `async for event in tail`.

    Users' messages are among them, and with `partials` what agents stream. The iteration goes on from turn to turn, and when
    actors are lost, until it is left, or `close` is called. It ends with SessionNotFoundError when the session is deleted, and
    with RuntimeClosedError when the Runtime is closed. Leaving it cancels no turn.

    Args:
        partials: whether partial events are given, too.
    """

    def __init__(self, events: Turn, *, partials: bool) -> None:
        self._events = events
        self._partials = partials

    def __iter__(self) -> Iterator[Event]:
        for event in self._events:
            if self._partials or not event.partial:
                yield event

    async def __aiter__(self) -> AsyncIterator[Event]:
        async with aclosing(aiter(self._events)) as events:  # type: ignore[type-var]
            async for event in events:
                if self._partials or not event.partial:
                    yield event

    async def batches(self) -> AsyncGenerator[Sequence[StoredEvent]]:
        """The events as `async for` gives them, but as they are stored, and at once those that have come at once."""
        async with aclosing(self._events.batches()) as batches:
            async for batch in batches:
                if wanted := [stored for stored in batch if self._partials or stored.seq]:
                    yield wanted

    def close(self) -> None:
        """Follow the session no more: iterations under way end after what has come."""
        self._events.detach()

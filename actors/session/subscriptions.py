"""Which drivers follow which turns. Each has an outbox, and fetches its news by long polls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from actors.interfaces.clock import loop_time_s
from actors.messages.protocol.base import Ack, StoredEvent
from actors.messages.protocol.outcomes import AnyOutcome
from actors.messages.protocol.subscriptions import WHOLE_SESSION, News, Poll, TurnRead, Unsubscribe
from actors.messages.session import SessionKey, TurnKey
from actors.rules.delivery.answers import AnswersUnderWay
from actors.session.outbox import POLL_S, Outbox, ReadTurnPage

LAGGING = "lagging"
"""The figure of the subscribers that have news to fetch, and have polled lately."""

_NO_OUTBOXES: Mapping[str, Outbox] = {}


class Subscriptions:
    """The subscribers of every turn, and their outboxes.

    Args:
        read: reads a turn's events after a position from the log, for subscribers that lag.
        poll_s: how long a poll waits for news at most, in seconds; None: until there is some.
    """

    def __init__(self, read: ReadTurnPage, clock: Callable[[], float] = loop_time_s, poll_s: float | None = POLL_S) -> None:
        self._poll_s = poll_s
        self._read = read
        self._clock = clock
        self._outboxes: dict[str, Outbox] = {}
        # By name in order, and no set: the same requests are replied to in the same order in every process.
        self._of_turn: dict[TurnKey, dict[str, Outbox]] = {}
        self._answers: dict[SessionKey, AnswersUnderWay] = {}
        self._polls = 0

    @property
    def counts(self) -> dict[str, int]:
        """Figures by name."""
        size = sum(outbox.size for outbox in self._outboxes.values())
        lagging = sum(outbox.has_news and not outbox.is_abandoned() for outbox in self._outboxes.values())
        return {"polls": self._polls, "subscribers": len(self._outboxes), "bytes_untold": size, LAGGING: lagging}

    def add(self, subscriber: str, key: SessionKey, invocation_id: str, after_seq: int, head_seq: int = 0) -> None:
        """Deliver a turn to a subscriber from now on, and before that what its log holds.

        Args:
            subscriber: "" adds nothing.
            after_seq: the last position that the subscriber knows.
            head_seq: the last position that is on disk.
        """
        if subscriber:
            turn, outbox = (key, invocation_id), self._outbox(subscriber)
            self._of_turn.setdefault(turn, {})[subscriber] = outbox
            outbox.follow(turn, after_seq, head_seq)

    def add_ended(
        self,
        subscriber: str,
        key: SessionKey,
        invocation_id: str,
        after_seq: int,
        head_seq: int,
        outcome: AnyOutcome,
        opened_seq: int,
    ) -> None:
        """Deliver a turn that has ended to a subscriber: see `add`, and TurnNews for `opened_seq`."""
        outbox = self._outbox(subscriber)
        outbox.follow((key, invocation_id), after_seq, head_seq)
        outbox.put_end((key, invocation_id), outcome, opened_seq)

    def publish(self, key: SessionKey, invocation_id: str, events: Sequence[StoredEvent]) -> None:
        """Deliver new events or partials of a turn to its subscribers."""
        if self._answers and (answers := self._answers.get(key)) is not None:
            for event in events:
                if event.seq:
                    answers.complete(event.raw)
        for turn, outbox in self._followers(key, invocation_id):
            outbox.put_events(turn, events)

    def expect(self, key: SessionKey, invocation_id: str, head_seq: int) -> None:
        """Deliver what the log has of a session's open turn, up to `head_seq`, and the subscribers do not."""
        for turn, outbox in self._followers(key, invocation_id):
            outbox.expect(turn, head_seq)

    def publish_message(self, key: SessionKey, event: StoredEvent) -> None:
        """Deliver a user's event to the subscribers of the whole session."""
        for turn, outbox in self._followers(key):
            outbox.put_events(turn, [event])

    def _followers(self, key: SessionKey, *invocation_ids: str) -> Iterator[tuple[TurnKey, Outbox]]:
        """The outboxes of the subscribers of a turn and of its whole session, each with which of them it follows."""
        for turn in [(key, each) for each in (*invocation_ids, WHOLE_SESSION)]:
            for outbox in self._of_turn.get(turn, _NO_OUTBOXES).values():
                yield turn, outbox

    def answers(self, key: SessionKey, invocation_id: str) -> AnswersUnderWay:
        """The answers that are under way in a session's open turn, as streamed so far, to be changed in place."""
        found = self._answers.get(key)
        if found is None or found.invocation_id != invocation_id:
            found = self._answers[key] = AnswersUnderWay(invocation_id)
        return found

    def _answers_of(self, turn: TurnKey) -> AnswersUnderWay | None:
        """The answers under way for the subscribers of a turn, which may wait in line behind the one that gives them."""
        key, invocation_id = turn
        found = self._answers.get(key)
        return found if found is not None and invocation_id in (found.invocation_id, WHOLE_SESSION) else None

    async def _read_turn(self, key: SessionKey, invocation_id: str, after_seq: int) -> TurnRead:
        """Read a page of a turn. An answer whose event it has was stored by a write whose outcome could not be told."""
        page = await self._read(key, invocation_id, after_seq)
        if (answers := self._answers.get(key)) is not None:
            answers.complete_stored(page.events)
        return page

    def drop_answers(self, key: SessionKey, runs: Iterable[int] | None = None) -> None:
        """Forget what has been streamed by runs that were lost; None: by all."""
        if key in self._answers:
            self._answers[key].drop_runs(runs)

    def forget_answers(self, key: SessionKey) -> None:
        """Forget all answers of a session: its open turn has ended."""
        self._answers.pop(key, None)

    def publish_answers(self, key: SessionKey, invocation_id: str) -> None:
        """Deliver the answers under way from their beginnings to the subscribers of a turn."""
        for turn, outbox in self._followers(key, invocation_id):
            outbox.put_answers(turn)

    def publish_end(self, key: SessionKey, invocation_id: str, outcome: AnyOutcome, opened_seq: int = 0) -> None:
        """Deliver the end of a turn to its subscribers, which follow it no longer. `opened_seq`: see TurnNews."""
        turn = (key, invocation_id)
        for outbox in self._of_turn.pop(turn, _NO_OUTBOXES).values():
            outbox.put_end(turn, outcome, opened_seq)

    def publish_dropped(self, key: SessionKey, invocation_id: str) -> None:
        """Tell the subscribers of a turn that it has left the queue and has not begun; they follow it no longer."""
        turn = (key, invocation_id)
        for outbox in self._of_turn.pop(turn, _NO_OUTBOXES).values():
            outbox.put_drop(turn)

    async def poll(self, message: Poll) -> News:
        """Reply with the news of a subscriber, as soon as there is some.

        A subscriber that was not known gets that at once: see News.
        """
        self._polls += 1
        is_known = message.subscriber in self._outboxes
        outbox = self._outbox(message.subscriber)
        if not is_known or message.outbox not in ("", outbox.id):
            return News(known=False, outbox=outbox.id)
        return await outbox.poll(message.ack)

    async def unsubscribe(self, message: Unsubscribe) -> Ack:
        """Forget a subscriber, or that it follows one turn."""
        if message.key is None:
            self.remove(message.subscriber)
            return Ack()
        turn = (message.key, message.invocation_id)
        self._unfollow(turn, message.subscriber)
        if message.subscriber in self._outboxes:
            self._outboxes[message.subscriber].forget_turn(turn)
        return Ack()

    def remove(self, subscriber: str) -> None:
        """Forget a subscriber, which may be unknown."""
        outbox = self._outboxes.pop(subscriber, None)
        if outbox is not None:
            outbox.close()
        for turn in list(self._of_turn):
            self._unfollow(turn, subscriber)

    def _unfollow(self, turn: TurnKey, subscriber: str) -> None:
        followers = self._of_turn.get(turn, {})
        followers.pop(subscriber, None)
        if not followers:
            self._of_turn.pop(turn, None)

    def close(self) -> None:
        """Forget all subscribers."""
        for subscriber in list(self._outboxes):
            self.remove(subscriber)

    def _outbox(self, subscriber: str) -> Outbox:
        outbox = self._outboxes.get(subscriber)
        if outbox is None:
            for name in [name for name, box in self._outboxes.items() if box.is_abandoned()]:
                self.remove(name)
            outbox = self._outboxes[subscriber] = Outbox(
                self._clock, self._read_turn, answers=self._answers_of, poll_s=self._poll_s
            )
        return outbox

"""What has to hold of messages to an agent that is at work (docs/semantics.md section 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from actors import Event
from tests.model.history import Ask
from tests.model.story import USER, Story, read_by, seqs


def read_once(story: Story) -> Iterator[str]:
    """2 Concurrent turns: a message that steers is in the log once: in a turn that ran when it waited, or in one of its own."""
    for text, asks in _sent(story).items():
        found = _places(story, text)
        if len(found) > 1:
            yield f"message {text!r} is in the log {len(found)} times: {seqs(found)}"
        if not found and any(ask.kind == "end" and ask.ended != "TurnCancelledError" for ask in asks):
            yield f"message {text!r} is not in the log, and {asks[0]} came to {asks[0].ended}"
        for event in found:
            turn = story.turns[event.invocation_id]
            if read_by(event) and not (turn.messages and turn.messages[0].seq < event.seq):
                yield f"message {event.seq} was read in turn {turn.id}, which had not begun"
            began = min(ask.began for ask in asks)
            over = [ask for ask in story.of_turn(turn.id) if ask.kind == "end" and ask not in asks and ask.ended_at < began]
            if read_by(event) and over:
                yield f"message {event.seq} was sent when {over[0]} had come to {over[0].ended}, and was read in that turn"


def answered_with_it(story: Story) -> Iterator[str]:
    """2 Concurrent turns: the program that has sent a message is given the turn that has it, and what came after it."""
    for text, asks in _sent(story).items():
        for event in _places(story, text)[:1]:
            for ask in asks:
                if ask.kind == "end" and ask.turn != event.invocation_id:
                    yield f"{ask} came to {ask.ended}, and turn {event.invocation_id} has its message"
                elif ask.ended == "Finished" and not any(given.seq > event.seq for given in ask.events):
                    yield f"{ask} was given {seqs(ask.events)}, and its message is {event.seq}"


def messages_in_order(story: Story) -> Iterator[str]:
    """2 Concurrent turns: messages that one program sends without waiting come in their order, but for losses.

    Those of one microsecond, which virtual time may take for many, have no order.
    """
    if story.history.lost or story.history.faults:
        return
    last: dict[str, Event] = {}
    for text, asks in _sent(story).items():
        for event in _places(story, text)[:1]:
            before = last.get(asks[0].program, event)
            if event.seq < before.seq and event.timestamp - before.timestamp > 1e-6:
                yield f"message {event.seq} stands before {before.seq}, which {asks[0].program} had sent before"
            last[asks[0].program] = event


def _sent(story: Story) -> Mapping[str, Sequence[Ask]]:
    """The requests that steer, by their texts, which differ."""
    found: dict[str, list[Ask]] = {}
    for ask in story.asks:
        if ask.steers and ask.message is not None:
            found.setdefault(ask.message.text, []).append(ask)
    return found


def _places(story: Story, text: str) -> Sequence[Event]:
    return [event for event in story.whole if event.author == USER and event.branch is None and event.text == text]


STEERING_RULES = (read_once, answered_with_it, messages_in_order)

"""What has to hold of sessions and their data (docs/semantics.md section 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.model.history import NEVER, History
from tests.model.story import SHARED, Story, fold, is_message, seqs, takes_back, without_none


def positions(story: Story) -> Iterator[str]:
    """6 Events: a session's `seq` begins with 1 and has no gaps: what is not shown was taken back by the event behind it.

    A fork keeps the positions of what it copies, and has only what was shown. Where no store tells what was taken back, only
    what is shown is looked at.
    """
    before = 0
    for event in story.log:
        if event.seq != before + 1 and not (event.seq > before and takes_back(event)):
            yield f"the log has {event.seq} after {before}"
        before = event.seq
    places = [0, *seqs(story.whole)]
    gaps = [event for event, place in zip(story.whole, places, strict=False) if event.seq != place + 1]
    if story.whole is not story.log and any(event.id not in story.copied or not takes_back(event) for event in gaps):
        yield f"the stored log has gaps: {seqs(story.whole)}"


def each_event_once(story: Story) -> Iterator[str]:
    """6 Events: an event has an id. It is stored once, however often it was sent."""
    often = Counter(event.id for event in story.whole)
    yield from (f"event {each} is in the log {number} times" for each, number in often.items() if number > 1)


def no_partial_event(story: Story) -> Iterator[str]:
    """2 Partial events: streamed pieces are delivered, never stored."""
    yield from (f"event {event.seq} is partial, and stored" for event in story.whole if event.partial)


def state_is_the_fold(story: Story) -> Iterator[str]:
    """6 State: a plain key is the session's: its state is what the changes in its log make of it."""
    folded = {key: value for key, value in fold(story.log, story.first_state).items() if not key.startswith(SHARED)}
    state = {key: value for key, value in without_none(story.found.state).items() if not key.startswith(SHARED)}
    if folded != state:
        yield f"the state is {state}, and the log's changes make {folded}"


def temp_is_not_stored(story: Story) -> Iterator[str]:
    """6 State: `temp:` is never in a stored event."""
    for event in story.whole:
        yield from (f"event {event.seq} has stored {key}" for key in event.actions.state_delta if key.startswith("temp:"))


def written_at(story: Story) -> Iterator[str]:
    """6 Clocks: the age of a session goes by times: it was written to when the newest event of a turn was, or later."""
    newest = next((event for event in reversed(story.log) if event.invocation_id in story.found.turns), None)
    if newest is not None and 0 < story.found.written_s < newest.timestamp:
        yield f"the session was written to at {story.found.written_s}, and event {newest.seq} is of {newest.timestamp}"


def reads(story: Story) -> Iterator[str]:
    """6 Sessions: `get` gives the log without holes and the state that it makes: all that any program knew of before it asked."""
    for ask in story.asks:
        if ask.what != "get" or ask.kind != "done" or ask.result is None or ask.given:
            continue
        got = list(ask.result.events)
        ids = {event.id for event in got}
        lacks = [e for e in story.log if e.id not in ids and story.was_here(e) < ask.began and story.changed_at == NEVER]
        if lacks:
            yield f"{ask} was given {seqs(got)}, and {seqs(lacks)} were there before"
        folded, state = fold(got, story.first_state), without_none(ask.result.state)
        if folded != state and not any(key.startswith(SHARED) for key in (*state, *folded)):
            yield f"{ask} was given the state {state}, and the events make {folded}"


def shared_state(history: History) -> Iterator[str]:
    """6 State: `user:` is seen by all sessions of the user, `app:` by all users: the last change in one of the sessions counts.

    Where events were taken back or sessions deleted, any value that was ever set may be there.
    """
    stories = [Story(history, session) for session in history.found]
    takes_back = any(story.changed_at < NEVER for story in stories)
    has_all = not history.removed and all(story.is_whole for story in stories)
    set_to: dict[tuple[str, str], list[Any]] = {}
    for story in stories:
        changes = [each for event in story.whole for each in event.actions.state_delta.items()]
        for key, value in changes if takes_back else dict(changes).items():
            set_to.setdefault((story.id[0] if key.startswith("user:") else "", key), []).append(value)
    for (user, session), found in history.found.items():
        for (of, key), allowed in set_to.items() if found.log and has_all else ():
            value = found.state.get(key)
            if key.startswith(SHARED) and of in ("", user) and value not in allowed:
                yield f"{user}/{session}: {key} is {value}, and sessions have set it to {allowed} last"


def created_once(story: Story) -> Iterator[str]:
    """6 Sessions: `create` with an id that exists fails with SessionExistsError, and with no other."""
    made = [ask for ask in story.asks if ask.what == "create"]
    for ask in made:
        was_there = any(story.was_here(event) < ask.began for event in story.whole)
        was_there = was_there or any(other.kind == "done" and other.ended_at < ask.began for other in made)
        if ask.kind == "done" and was_there and story.changed_at == NEVER:
            yield f"{ask} made a session that was there"
        others = [
            other for other in story.history.asks if other is not ask and other.user == ask.user and other.began < ask.ended_at
        ]
        if ask.ended == "SessionExistsError" and not any(
            ask.session in (other.session, other.given.get("fork_id")) for other in others
        ):
            yield f"{ask} was refused, and there was no such session"


def deleted(story: Story) -> Iterator[str]:
    """6 Sessions: what was deleted is gone: no event is shown that was stored before a deletion was asked for.

    A message may be there whose own request was under way meanwhile: it begins its turn anew.
    """
    gone = [ask for ask in story.deletions if ask.kind == "done" and ask.what != "prune"]
    if not gone:
        return
    last = max(gone, key=lambda ask: ask.began)
    again = {
        ask.turn for ask in story.asks if ask.message is not None and ask.began < last.ended_at and ask.ended_at > last.began
    }
    old = [event for event in story.log if story.was_here(event) < last.began]
    if left := [event for event in old if not (is_message(event) and event.invocation_id in again)]:
        yield f"events {seqs(left)} were deleted, and are there"


SESSION_RULES = (
    positions,
    each_event_once,
    no_partial_event,
    state_is_the_fold,
    temp_is_not_stored,
    written_at,
    reads,
    created_once,
    deleted,
)
USER_RULES = (shared_state,)

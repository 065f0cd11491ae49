"""What has to hold of all that programs are given: each reader sees one story, and it is that of the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from actors import Event
from tests.model.history import NEVER, Ask
from tests.model.story import USER, Story, Turn, by_agents, is_seal, seqs


def acknowledged_is_kept(story: Story) -> Iterator[str]:
    """2 Order of a turn: every complete event is stored before any reader gets it, and stays, unless it is taken back."""
    places = {event.id: event.seq for event in story.whole}
    for ask in story.asks:
        for at, event in ask.heard:
            if event.partial:
                continue
            if event.id not in places and at > story.changed_at:
                continue
            if event.id not in places and story.changed_at == NEVER:
                yield f"{ask} was given event {event.seq}, which is not in the log"
            elif event.id in places and places[event.id] != event.seq:
                yield f"{ask} was given an event as {event.seq} that is {places[event.id]} in the log"
            elif at < story.known(event):
                yield f"{ask} was given event {event.seq} before it was stored"


def one_story(story: Story) -> Iterator[str]:
    """2 Ids and repeats: a program gets the events of its turn from the first on, in the order of the log and without holes.

    One that answers gets those after its own answer, also where another program has answered the call before. One that attaches
    behind a position gets those after that, and one that retries those from anywhere on; so does one that steers, after those of
    the turn that ran. What was taken back may be missing.
    """
    for ask in story.asks:
        turn = story.turns.get(ask.turn)
        got = ask.events
        if turn is None or not got or ask.what in ("tail", "get"):
            continue
        if seqs(got) != sorted(set(seqs(got))):
            yield f"{ask} was given {seqs(got)}"
        if ask.steers:
            got = [event for event in got if event.invocation_id == ask.turn]
        first = got[0].seq if got and (ask.what == "retry" or ask.steers) else _after(story, turn, ask) + 1
        until = got[-1].seq if got else 0
        wanted = [event for event in by_agents(turn.events) if first <= event.seq <= until and event.id in story.shown]
        ids = {event.id for event in got}
        if holes := [event for event in wanted if event.id not in ids]:
            yield f"{ask} was given {seqs(got)} without {seqs(holes)}"
        if others := [event for event in got if event.invocation_id != ask.turn or event.author == USER]:
            yield f"{ask} was given {seqs(others)}, which are not of its turn"


def whole_story(story: Story) -> Iterator[str]:
    """2 Order of a turn: a reader of a turn has all of it at its end: more comes after a message, a retry or a cancel only."""
    for ask in story.asks:
        turn = story.turns.get(ask.turn)
        if turn is None or ask.kind != "end" or ask.what == "cancel" or story.changed_at < NEVER or turn.id in story.retried:
            continue
        after = max(_place(turn, ask) or _after(story, turn, ask), ask.events[-1].seq if ask.events else 0)
        missed = next((event for event in by_agents(turn.events) if event.seq > after), None)
        if missed is None or _is_refused_behind_another(story, ask) or _is_forgotten(story, ask, missed):
            continue
        # One that was cancelled in line begins when it is asked for again.
        opened = any(
            after < message.seq < missed.seq
            and (ask.events or message is not turn.messages[0] or story.known(message) > ask.ended_at)
            for message in turn.messages
        )
        was_sealed = is_seal(missed) and ask.ended in ("Paused", "TurnCancelledError")
        if not opened and not was_sealed:
            yield f"{ask} came to {ask.ended} with {seqs(ask.events)}, and {missed.seq} is in the log"


def _after(story: Story, turn: Turn, ask: Ask) -> int:
    """The position after which a program is given events. An answer that was stored before it asked is another program's."""
    answers = [event for event in turn.messages for each in event.function_responses() if each.id in ask.responses]
    own = [event for event in answers if story.known(event) >= ask.began] or answers
    # Of two that came at the same time it may be either.
    first = ask.events[0].seq if ask.events else 0
    own = [event for event in own if event.seq < first][-1:] or own
    return own[0].seq if own else int(ask.given.get("after_seq", 0))


def _place(turn: Turn, ask: Ask) -> int:
    """The position of a message that steers."""
    return max(
        (e.seq for e in turn.events if ask.steers and ask.message and e.author == USER and e.text == ask.message.text), default=0
    )


def _is_refused_behind_another(story: Story, ask: Ask) -> bool:
    """True for an answer of which the log has nothing: a cancel met it in line, or another one came first; and for a request for
    a turn that is there, which a cancel of that met in line."""
    cancels = (each for each in story.asks if each.what == "cancel" and each.turn == ask.turn)
    met = ask.ended == "TurnCancelledError" and any(ask.began <= each.began <= ask.ended_at for each in cancels)
    return not ask.events and (bool(ask.responses) or met)


def _is_forgotten(story: Story, ask: Ask, then: Event) -> bool:
    """2 Cancellation: True if a store had failed when the turn ended, and had stored `then` without a word, so that no program
    had it; or a Session actor that knew of the end was lost before `then`.
    """
    failed = any(at < ask.ended_at for at, fault in story.history.faults if fault.startswith(("store", "commit")))
    if story.known(then) < ask.ended_at:
        had = (at for each in story.asks for at, event in each.heard if event.id == then.id)
        return failed and all(at > ask.ended_at for at in had)
    return failed and any(ask.ended_at < at < story.known(then) for at, name in story.history.lost if name.startswith("session"))


def pieces(story: Story) -> Iterator[str]:
    """2 Partial events: the pieces that a reader gets together are the text of the complete event. None comes behind that, nor
    of another turn.

    After the loss of an agent the next attempt goes on where it begins with what a reader has, and else begins the answer again.
    Of an answer that is complete when a Session actor is lost, the last pieces may be lost with it.
    """
    for ask in story.asks:
        texts: dict[tuple[str, str | None], str] = defaultdict(str)
        attempts: dict[tuple[str, str | None], str] = {}
        ended: set[str] = set()
        for _, event in ask.heard:
            stream = (event.author, event.branch)
            if event.partial and event.invocation_id != ask.turn and ask.what != "tail":
                yield f"{ask} was given {event.text!r} of turn {event.invocation_id}"
            if event.partial and event.id in ended:
                yield f"{ask} was given a piece of event {event.id} behind the event"
            elif event.partial:
                had, before = texts[stream], attempts.get(stream, event.id)
                if had and event.id != before and event.text.startswith(had) and not _may_wait(story):
                    yield f"{ask} was given {event.text!r} as the beginning of an answer again, and had {had!r}"
                attempts[stream] = event.id
                texts[stream] += event.text
            else:
                ended.add(event.id)
                text = texts.pop(stream, "")
                attempts.pop(stream, None)
                may_be = any(event.text.startswith(text[begins:]) for begins in range(len(text)))
                is_it = may_be if story.history.lost else text == event.text
                if text and event.content is not None and not is_it and not is_seal(event):
                    yield f"{ask} was given {text!r} in pieces, and event {event.seq} says {event.text!r}"


def _may_wait(story: Story) -> bool:
    """True if a program may have been stopped for a while: what it gets then are several pieces in one."""
    return any(fault == "freeze" for _, fault in story.history.faults)


def found_for_a_reason(story: Story) -> Iterator[str]:
    """2 Ids and repeats: InvocationNotFoundError is for a turn that is in no log, such as one in line that was dropped."""
    for ask in story.asks:
        turn = story.turns.get(ask.turn)
        if (
            ask.ended == "InvocationNotFoundError"
            and turn is not None
            and story.was_here(_first(turn)) < ask.began
            and ask.ended_at < story.changed_at
        ):
            yield f"{ask} was refused, and event {_first(turn).seq} of its turn was there"


def _first(turn: Turn) -> Event:
    return turn.events[0]


READER_RULES = (acknowledged_is_kept, one_story, whole_story, pieces, found_for_a_reason)

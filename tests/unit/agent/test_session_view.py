"""What an agent's actor keeps of a log that it reads in pages, and of logs that another agent has compiled."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from actors import Event
from actors.agent.views import EVENT_OVERHEAD, MIN_EVENTS, AgentView, FirstSight, SightKey, ViewMemory
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.log import Fetched
from actors.messages.session import SessionKey
from actors.rules.eviction import OVERHEAD
from actors.rules.prompt.history import History
from tests.support.fixtures.log_events import call, event, resp, said
from tests.support.fixtures.session_fixture import KEY

PAGES = [
    [event("user", said("may I?"), turn="e-0"), event("me", call("c"), turn="e-0", lro=["c"])],
    *([event("user", said("q" * 100), turn=f"e-{n}"), event("me", said("a"), turn=f"e-{n}")] for n in range(1, 1_000)),
]


def feed(view: AgentView, pages: Sequence[Sequence[Event]]) -> list[int]:
    """Give it pages one after the other. Returns how much was kept after each."""
    kept = []
    for page in pages:
        events = [StoredEvent(view.seq + place, encode(each)) for place, each in enumerate(page, start=1)]
        view.take_in(Fetched(events=events, generation="g", state=encode({})))
        kept.append(len(view.history))
    return kept


def test_of_what_is_read_in_pages_no_more_is_held_than_the_agent_can_see() -> None:
    view = AgentView("me", None, History, latest_only=True)
    kept = feed(view, PAGES)
    # A call is waited for for a while.
    assert max(kept) <= 1_002
    assert kept[-1] == 2
    assert view.weight < 4 * EVENT_OVERHEAD
    everything = AgentView("me", None, History)
    assert feed(everything, PAGES)[-1] == 2_000
    assert everything.weight > 2_000 * EVENT_OVERHEAD


def test_what_is_read_anew_is_kept_until_the_run_is_over() -> None:
    view = AgentView("me", None, History, latest_only=True)
    feed(view, PAGES)
    answer = [event("user", resp("c", "yes"), turn="e-0")]
    feed(view, [answer])
    assert view.history.lacks(["c"])
    view.begin_again()
    assert feed(view, [*PAGES, answer])[-1] == 2_001
    assert not view.history.lacks(["c"])
    view.end_run()
    feed(view, [[event("me", said("thanks"), turn="e-0")], [event("user", said("bye"), turn="e-1001")]])
    assert len(view.history) == 1


def test_an_event_that_two_runs_take_in_is_kept_once() -> None:
    # The run of a turn that has just ended takes in its last event, while the run of the next turn fetches the same one.
    view = AgentView("me", None, History)
    asked, said_so, next_asked = event("user", said("q")), event("me", said("a")), event("user", said("more"))
    view.take_in(Fetched(events=[StoredEvent(1, encode(asked))], generation="g", state=encode({})))
    news = [StoredEvent(2, encode(said_so)), StoredEvent(3, encode(next_asked))]
    assert view.add_own(msgspec.structs.replace(said_so, seq=2), 10)
    view.take_in(Fetched(events=news, generation="g", state=encode({})))
    assert (len(view.history), view.seq) == (3, 3)


def fresh(seq: int, *, before: int = 0, after: int = 0, turn: str = "e-1", epoch: int = 1, generation: str = "g") -> p.Invoke:
    """The message of a turn at `seq`, with so many events around it."""
    events = [StoredEvent(place, encode(event("user", said(str(place))))) for place in range(seq - before, seq + after + 1)]
    return p.Invoke(
        turn=p.TurnRef(KEY, turn, epoch, generation=generation),
        agent="me",
        user_event=events[before],
        before=events[:before],
        after=events[before + 1 :],
        fresh=True,
        state=encode({"seq": seq}),
    )


def texts(view: AgentView) -> list[str]:
    return [part.text or "" for content in view.history.contents() for part in content.parts]


def test_a_new_view_follows_a_log_from_its_first_event_on() -> None:
    view = AgentView("me", None)
    assert not view.follow(fresh(3, before=1))
    assert view.follow(fresh(3, before=2, after=1))
    assert (texts(view), view.seq, view.generation, view.state.value) == (["1", "2", "3", "4"], 4, "g", {"seq": 3})


def test_what_a_view_has_already_is_not_taken_in_again_and_what_is_missing_is_not_left_out() -> None:
    view = AgentView("me", None)
    assert view.follow(fresh(2, before=1))
    assert not view.follow(fresh(5, before=1))
    assert view.follow(fresh(5, before=4))
    assert texts(view) == ["1", "2", "3", "4", "5"]
    # What it knows beyond that was written since the message was sent.
    assert not view.follow(fresh(3, before=2))
    assert view.seq == 5


def test_a_log_that_was_rewound_is_not_followed() -> None:
    view = AgentView("me", None)
    assert view.follow(fresh(1))
    assert not view.follow(fresh(2, before=1, generation="rewound"))
    assert texts(view) == ["1"]


def test_an_event_of_its_own_is_not_taken_in_before_those_of_others_that_came_earlier() -> None:
    view = AgentView("me", None, History)
    feed(view, [[event("user", said("hi"))]])
    own = event("me", said("hello"))
    assert not view.add_own(msgspec.structs.replace(own, seq=3), 100)
    assert view.add_own(msgspec.structs.replace(own, seq=2), 100)


def test_what_a_run_with_an_older_copy_of_the_state_writes_is_in_the_newest() -> None:
    view = AgentView("a", None)
    turn = p.TurnRef(key=KEY, invocation_id="e-1", epoch=1)
    view.state.take(turn, encode({}), 3)
    view.state.take(turn, encode({"other": 1}), 5)
    view.state.add_own(6, 5, {"own": 2})
    assert view.state.is_current(turn, 6)
    assert view.state.value == {"other": 1, "own": 2}


SIGHT = SightKey(SessionKey("app", "ada", "s"), None, latest_only=False)


def sight(size: int = 0, seq: int = MIN_EVENTS) -> FirstSight:
    return FirstSight(History("x"), seq, "g", size)


async def test_a_log_is_found_from_where_it_was_seen_only() -> None:
    sights, seen = ViewMemory().sights, sight()
    sights.keep(SIGHT, seen)
    assert sights.find(SIGHT) is seen
    others = [
        SIGHT._replace(session=SessionKey("other", "ada", "s")),
        SIGHT._replace(session=SessionKey("app", "bob", "s")),
        SIGHT._replace(branch="b"),
        SIGHT._replace(latest_only=True),
    ]
    assert [sights.find(other) for other in others] == [None] * 4


async def test_a_short_log_is_not_kept() -> None:
    sights = ViewMemory().sights
    sights.keep(SIGHT, sight(seq=MIN_EVENTS - 1))
    assert sights.find(SIGHT) is None


@pytest.mark.parametrize(("rooms", "kept"), [(2, [1, 2]), (3, [0, 1, 2]), (0, [2])])
async def test_the_log_used_least_recently_goes_first_and_the_latest_stays(rooms: int, kept: list[int]) -> None:
    memory = ViewMemory((OVERHEAD + 100) * rooms)
    keys = [SIGHT._replace(branch=str(number)) for number in range(3)]
    for key in keys:
        memory.sights.keep(key, sight(100))
    assert [number for number, key in enumerate(keys) if memory.sights.find(key) is not None] == kept
    assert memory.weight == (OVERHEAD + 100) * len(kept)

"""What a late reader gets: every complete event once and in order, and as many partials as there is room for."""

from __future__ import annotations

from actors.rules.event_buffer import EventBuffer
from tests.support.fixtures.streamed_events import complete, page, partial, texts


def test_what_fits_is_told_as_it_came() -> None:
    buffer = EventBuffer()
    events = [partial("x"), partial("y"), complete(3, "xy"), partial("z")]
    for event in events:
        buffer.put_event(event)
    assert buffer.take_events() == events
    assert (buffer.take_events(), buffer.size, buffer.is_behind, buffer.after_seq) == ([], 0, False, 3)


def test_what_came_before_is_passed_over() -> None:
    buffer = EventBuffer(after_seq=4)
    for seq in (3, 4, 5, 5, 2):
        buffer.put_event(complete(seq))
    assert [event.seq for event in buffer.take_events()] == [5]


def test_complete_events_without_room_are_left_to_the_log_with_all_behind_them() -> None:
    buffer = EventBuffer(max_bytes=1_000)
    log = [complete(seq, "x" * 300) for seq in range(1, 8)]
    for event in log:
        buffer.put_event(event)
    assert [event.seq for event in buffer.take_events()] == [1, 2]
    assert (buffer.is_behind, buffer.after_seq, buffer.head_seq) == (True, 2, 7)
    buffer.put_event(partial("lost"))
    buffer.catch_up(page(log[2:]), 7)
    assert [event.seq for event in buffer.take_events()] == [3, 4]
    buffer.catch_up(page(log[4:6], more=True), 7)
    assert [event.seq for event in buffer.take_events()] == [5, 6]
    buffer.catch_up(page(log[6:]), 7)
    assert not buffer.is_behind
    buffer.put_event(complete(8))
    assert [event.seq for event in buffer.take_events()] == [7, 8]


def test_an_event_larger_than_everything_is_told_alone() -> None:
    buffer = EventBuffer(max_bytes=100)
    buffer.put_event(complete(1, "x" * 1_000))
    buffer.put_event(complete(2, "x" * 1_000))
    assert [event.seq for event in buffer.take_events()] == [1]
    buffer.catch_up(page([complete(2, "x" * 1_000)]), 2)
    assert [event.seq for event in buffer.take_events()] == [2]
    assert not buffer.is_behind


def test_an_answer_that_lost_a_piece_is_told_again_only_when_it_is_complete() -> None:
    buffer = EventBuffer(max_bytes=1_000)
    buffer.put_event(partial("begin"))
    assert texts(buffer.take_events()) == [(0, "a", "begin")]
    buffer.put_event(partial("x" * 2_000))
    buffer.put_event(partial("after the gap"))
    buffer.put_event(partial("another's", "b"))
    buffer.put_event(complete(2, "all"))
    buffer.put_event(partial("the next"))
    assert texts(buffer.take_events()) == [(0, "b", "another's"), (2, "a", "all"), (0, "a", "the next")]


def test_ten_thousand_small_pieces_take_no_more_room_than_there_is_and_keep_every_word() -> None:
    buffer = EventBuffer(max_bytes=100_000)
    for number in range(10_000):
        buffer.put_event(partial(f"{number} "))
        assert buffer.size <= 100_000
    assert "".join(text for _, _, text in texts(buffer.take_events())) == "".join(f"{number} " for number in range(10_000))


def test_what_a_reader_does_not_want_is_not_told_whether_it_has_come_or_not() -> None:
    buffer = EventBuffer()
    for event in (complete(2), partial("x"), complete(4)):
        buffer.put_event(event)
    buffer.skip(3)
    buffer.put_event(complete(3))
    assert [event.seq for event in buffer.take_events()] == [0, 4]
    buffer.skip(8)
    for seq in (6, 8, 9):
        buffer.put_event(complete(seq))
    assert [event.seq for event in buffer.take_events()] == [9]
    assert not buffer.is_behind


def test_a_copy_goes_its_own_way() -> None:
    buffer = EventBuffer()
    buffer.put_event(partial("x"))
    other = buffer.copy()
    buffer.put_event(complete(1))
    assert (len(buffer), len(other)) == (2, 1)
    other.put_event(complete(1))
    assert len(buffer.take_events()) == len(other.take_events()) == 2

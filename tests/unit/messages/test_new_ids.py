"""Ids of events and turns that a program makes."""

from __future__ import annotations

import uuid
from unittest import mock

from actors.messages import event


def test_ids_are_those_of_uuids_and_no_two_are_equal() -> None:
    ids = {event.new_event_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(uuid.UUID(each).hex == each and uuid.UUID(each).variant == uuid.RFC_4122 for each in ids)
    assert {uuid.UUID(each).version for each in ids} == {7}
    turn = event.new_invocation_id()
    assert turn == f"e-{uuid.UUID(turn.removeprefix('e-'))}"


def test_ids_are_in_the_order_of_the_times_at_which_they_were_made() -> None:
    times = [0.0, 1.0, 1.25, 1_700_000_000.5, 1_700_000_000.75, 4_000_000_000.0]
    ids = []
    for at_s in times:
        with mock.patch.object(event, "now_s", return_value=at_s):
            ids.append(event.new_event_id())
    assert ids == sorted(ids)
    assert {len(each) for each in ids} == {32}

"""Ids of events and turns that a program makes."""

from __future__ import annotations

import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

from actors.messages import event
from actors.messages.event import IDS_AT_ONCE

FORKS = """
import os, sys
from actors.messages.event import new_event_id

new_event_id()
for _ in range(2):
    child = os.fork()
    if not child:
        print(new_event_id(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print(new_event_id())
"""


def test_ids_are_those_of_uuids_and_no_two_are_equal() -> None:
    ids = {event.new_event_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(uuid.UUID(each).hex == each and uuid.UUID(each).variant == uuid.RFC_4122 for each in ids)
    assert {uuid.UUID(each).version for each in ids} == {7}
    turn = event.new_invocation_id()
    assert turn == f"e-{uuid.UUID(turn.removeprefix('e-'))}"


def test_threads_make_different_ids() -> None:
    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda _: event.new_event_id(), range(8 * IDS_AT_ONCE)))
    assert len(set(ids)) == 8 * IDS_AT_ONCE


def test_forks_make_different_ids() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    # The random part alone: their times differ in any case.
    assert len({each[12:] for each in done.stdout.split()}) == 3


def test_ids_are_in_the_order_of_the_times_at_which_they_were_made() -> None:
    times = [0.0, 1.0, 1.25, 1_700_000_000.5, 1_700_000_000.75, 4_000_000_000.0]
    ids = []
    for at_s in times:
        with mock.patch.object(event, "now_s", return_value=at_s):
            ids.append(event.new_event_id())
    assert ids == sorted(ids)
    assert {len(each) for each in ids} == {32}

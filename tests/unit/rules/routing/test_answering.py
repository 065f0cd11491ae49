"""Which answers of the user to a call are taken."""

from __future__ import annotations

import pytest

from actors.rules.routing.answering import CallFacts, is_taken

NEVER = CallFacts()
WAITS = CallFacts(is_waiting=True)
ASKED_AGAIN = CallFacts(is_waiting=True, answered_seq=4, needed_consent=True)
VALUE = CallFacts(answered_seq=4)
CONSENT = CallFacts(answered_seq=4, needed_consent=True)


@pytest.mark.parametrize(
    ("call", "only_waiting", "known_seq", "taken"),
    [
        (WAITS, True, 0, True),
        (WAITS, False, 0, True),
        (ASKED_AGAIN, True, 0, True),
        (ASKED_AGAIN, False, 9, True),
        (NEVER, True, 9, False),
        (NEVER, False, 0, True),
        (VALUE, True, 9, False),
        (VALUE, False, 9, True),
        (VALUE, False, 4, True),
        (VALUE, False, 3, False),
        (CONSENT, True, 9, False),
        (CONSENT, False, 9, False),
        (CONSENT, False, 3, False),
    ],
)
def test_a_call_takes_one_answer_and_a_long_running_one_later_values(
    call: CallFacts, only_waiting: bool, known_seq: int, taken: bool
) -> None:
    assert is_taken(call, only_waiting=only_waiting, known_seq=known_seq) is taken

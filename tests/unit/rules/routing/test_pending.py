"""Which answers to calls are taken, and which task plain words answer."""

from __future__ import annotations

import pytest

from actors import Event
from actors.messages.graph import NodeInfo
from actors.messages.protocol.runs import AnyOutcome, Finished, Paused, for_users, words_call
from actors.rules.routing.pending import CallFacts, WaitingTask, as_answer, is_taken, waiting_task

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


FIRST, SECOND = words_call("wf@1/first@1"), words_call("wf@1/second@1")


@pytest.mark.parametrize(
    ("paused", "task"),
    [
        ([], None),
        ([(1, "e-1", Paused(call_ids=("c1",)))], None),
        ([(1, "e-1", Finished())], None),
        ([(1, "e-1", Paused(call_ids=("c1", FIRST, SECOND)))], ("e-1", "wf@1/first@1")),
        ([(5, "e-2", Paused(call_ids=(SECOND,))), (9, "e-1", Paused(call_ids=(FIRST,)))], ("e-1", "wf@1/first@1")),
        ([(5, "e-2", Paused(call_ids=(SECOND,))), (9, "e-1", Paused(call_ids=("c1",)))], ("e-2", "wf@1/second@1")),
    ],
)
def test_words_answer_the_first_task_of_the_turn_that_paused_last(
    paused: list[tuple[int, str, AnyOutcome]], task: tuple[str, str] | None
) -> None:
    assert waiting_task(paused) == task


@pytest.mark.parametrize(("is_delegate", "scope"), [(False, "boss@1/planner@call-1"), (True, "call-1")])
def test_words_are_in_the_scope_of_the_task_that_they_answer(is_delegate: bool, scope: str) -> None:
    words = Event(id="words-e-2", invocation_id="e-2", author="user")
    answer = as_answer(words, WaitingTask("e-1", "boss@1/planner@call-1"), is_delegate=is_delegate)
    info = NodeInfo(path="boss@1/planner@call-1", isolation_scope=scope)
    assert answer == Event(id="words-e-2", invocation_id="e-1", author="user", node_info=info)


def test_people_see_only_calls_that_they_can_answer() -> None:
    assert for_users(Paused(call_ids=("c1", FIRST, "c2"))) == Paused(call_ids=("c1", "c2"))

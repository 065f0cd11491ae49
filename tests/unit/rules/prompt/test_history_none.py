"""What an agent sees with include_contents="none" (semantics.md 5.4). The agent of every test is `me`."""

from __future__ import annotations

from actors import Event
from actors.rules.prompt.history import History
from tests.support.fixtures.log_events import call, event, resp, said, shown

Shown = list[tuple[str | None, list[str]]]


def seen(*log: Event) -> Shown:
    view = History("me")
    for each in log:
        view.add(each)
    return shown(view.contents("none"))


def test_it_begins_with_the_newest_message_of_the_user() -> None:
    assert seen(
        event("user", said("q1")),
        event("me", said("r1")),
        event("user", said("q2"), turn="e-2"),
        event("me", call("c1"), turn="e-2"),
        event("me", resp("c1", 1), role="user", turn="e-2"),
    ) == [("user", ["q2"]), ("model", ["<call f c1>"]), ("user", ["<resp f c1 1>"])]


def test_it_begins_with_the_newest_event_of_another_agent() -> None:
    assert seen(event("user", said("q")), event("B", said("one")), event("B", said("two")), event("me", said("mine"))) == [
        ("user", ["For context:", "[B] said: two"]),
        ("model", ["mine"]),
    ]


def test_neither_a_transfers_call_nor_its_response_begins_it() -> None:
    log = [
        event("user", said("q")),
        event("B", call("t1", "transfer_to_agent", agent_name="me")),
        event("B", resp("t1", None, "transfer_to_agent"), role="user", transfer="me"),
    ]
    assert [parts[0] for _, parts in seen(*log)] == ["q", "For context:", "For context:"]


def test_any_event_with_a_transfer_action_counts_as_a_transfers_response() -> None:
    log = [
        event("user", said("q")),
        event("B", call("c1", "route"), resp("x", 1, "transfer_to_agent")),
        event("B", resp("c1", "routed", "route"), role="user", transfer="me"),
    ]
    assert [parts[0] for _, parts in seen(*log)] == ["q", "For context:", "For context:"]


def test_a_user_event_of_mere_responses_does_not_begin_it() -> None:
    log = [
        event("user", said("q")),
        event("B", call("c1", "ask"), lro=["c1"]),
        event("user", resp("c1", "yes", "ask")),
    ]
    assert [parts[-1] for _, parts in seen(*log)] == [
        "[B] called tool `ask` with parameters: {}",
        '[user] `ask` tool returned result: {"result":"yes"}',
    ]
    assert seen(*log, event("user", said("and?"), resp("c1", "no", "ask"))) == [
        ("user", ["and?", '[user] `ask` tool returned result: {"result":"no"}'])
    ]


def test_with_a_late_answer_it_begins_no_later_than_the_message_of_the_turn_that_made_the_call() -> None:
    assert seen(
        event("user", said("old"), turn="e-0"),
        event("me", said("older"), turn="e-0"),
        event("user", said("buy")),
        event("me", call("c1"), lro=["c1"]),
        event("me", said("waiting")),
        event("user", said("time?"), turn="e-2"),
        event("me", said("noon"), turn="e-2"),
        event("user", resp("c1", "approved")),
    ) == [
        ("user", ["buy"]),
        ("user", ["time?"]),
        ("model", ["noon"]),
        ("model", ["<call f c1>"]),
        ("user", ["<resp f c1 approved>"]),
    ]


def test_the_message_of_a_turn_that_was_paused_is_its_first() -> None:
    assert seen(
        event("user", said("old"), turn="e-0"),
        event("user", said("buy")),
        event("me", call("c1"), lro=["c1"]),
        event("user", said("yes"), resp("c1", 1)),
        event("me", call("c2"), lro=["c2"]),
        event("user", said("time?"), turn="e-2"),
        event("user", resp("c2", 2)),
    ) == [
        ("user", ["buy"]),
        ("model", ["<call f c1>"]),
        ("user", ["<resp f c1 1>"]),
        ("user", ["yes"]),
        ("user", ["time?"]),
        ("model", ["<call f c2>"]),
        ("user", ["<resp f c2 2>"]),
    ]


def test_a_late_answer_that_the_longer_slice_takes_in_lengthens_it_further() -> None:
    assert seen(
        event("user", said("first")),
        event("me", call("c1"), lro=["c1"]),
        event("user", said("second"), turn="e-2"),
        event("me", call("c2"), lro=["c2"], turn="e-2"),
        event("user", resp("c1", 1)),
        event("me", said("one is there")),
        event("user", said("third"), turn="e-3"),
        event("user", resp("c2", 2), turn="e-2"),
    ) == [
        ("user", ["first"]),
        ("model", ["<call f c1>"]),
        ("user", ["<resp f c1 1>"]),
        ("user", ["second"]),
        ("model", ["one is there"]),
        ("user", ["third"]),
        ("model", ["<call f c2>"]),
        ("user", ["<resp f c2 2>"]),
    ]


def test_without_any_beginning_it_is_everything() -> None:
    assert seen(event("me", said("a")), event("me", said("b"))) == [("model", ["a"]), ("model", ["b"])]
    assert seen() == []
